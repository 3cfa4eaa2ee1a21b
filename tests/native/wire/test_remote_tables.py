"""Tables behind the wire are the same tables: bit for bit in fp32, nearly so in two bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from clickline._native import Lane, Table, WireServer, bucket_of, owner_ranges
from clickline.errors import PeerError
from support.doubles.wire_peers import keys_in_order

Serve = Callable[..., WireServer]
Connect = Callable[..., Lane]
DIM = 5


def arrays(keys: NDArray[np.uint64], *, seed: int = 0, dim: int = DIM) -> tuple[Any, ...]:
    random = np.random.default_rng(seed)
    shows = random.integers(1, 9, len(keys)).astype(np.float32)
    gradients = random.normal(size=(len(keys), dim)).astype(np.float32)
    return keys, gradients, shows, shows // 2, random.integers(0, 2, len(keys)).astype(np.uint16)


@pytest.fixture
def cluster(serve: Serve, connect: Connect) -> Callable[..., tuple[Lane, list[WireServer], list[Table]]]:
    def make(servers: int, *, dim: int = DIM, **settings: Any) -> tuple[Lane, list[WireServer], list[Table]]:
        made = [serve("tcp:127.0.0.1:0" if number % 2 else "") for number in range(servers)]
        tables = [Table(dim=dim, **settings) for _ in made]
        for server, table in zip(made, tables, strict=True):
            server.add_table(3, table)
            server.open()
        return connect(*made), made, tables

    return make


def test_owner_ranges_cover_all_buckets_once() -> None:
    for servers in (1, 2, 3, 7, 4096):
        ranges = owner_ranges(servers)
        assert [first for first, _ in ranges] == [0, *(last for _, last in ranges[:-1])]
        assert (len(ranges), ranges[-1][1]) == (servers, 4096)
    for servers in (0, 4097):
        with pytest.raises(ValueError, match="1 to 4096"):
            owner_ranges(servers)


@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "ftrl"])
@pytest.mark.parametrize("servers", [1, 2, 5])
def test_equal_to_a_local_table_bit_for_bit(cluster: Any, servers: int, optimizer: str) -> None:
    policies = [(1, 1.0, 0, 0.0, 0.1, 1.0), (6, 1.0, 0, 0.0, 0.1, 1.0)]  # keys of slot 1 wait for six sightings
    settings = {"optimizer": optimizer, "seed": 9, "policies": policies}
    lane, made, tables = cluster(servers, **settings)
    local = Table(dim=DIM, **settings)
    for step in range(4):
        keys, *rest = arrays(keys_in_order(300 if step else 2, seed=step % 3), seed=step)
        for training in (True, False):
            for slots in (rest[-1], None):
                near, far = np.empty((len(keys), DIM), np.float32), np.empty((len(keys), DIM), np.float32)
                local.pull(keys, near, training=training, slots=slots)
                lane.pull(3, keys, far, training=training, slots=slots)
                assert near.tobytes() == far.tobytes()
        local.push(keys, *rest, tick=step, scale=0.5)
        lane.push(3, keys, *rest, tick=step, scale=0.5)
    ranges = owner_ranges(servers)
    for (first, last), table, server in zip(ranges, tables, made, strict=True):
        own = table.keys()
        assert all(first <= bucket_of(key) < last for key in own.tolist())
        assert np.array_equal(table.states(own), local.states(own))
        assert np.array_equal(table.counts(own), local.counts(own))
        assert table.step == 4
        assert server.counters()["pushes"] == 4
    assert sum(map(len, tables)) == len(local)


@pytest.mark.parametrize(("wire", "tolerance"), [("fp16", 1e-3), ("bf16", 8e-3)])
@pytest.mark.parametrize("dim", [1, 5, 16])
def test_two_bytes_are_nearly_as_good(cluster: Any, wire: str, tolerance: float, dim: int) -> None:
    lane, made, _ = cluster(2, dim=dim, optimizer="sgd", learning_rate=1.0, init_scale=0.0)
    keys, gradients, *rest = arrays(keys_in_order(203), dim=dim)
    out = np.empty((len(keys), dim), np.float32)
    lane.push(3, keys, gradients, *rest, tick=1, wire=wire)
    lane.pull(3, keys, out, training=False)
    np.testing.assert_allclose(out, -gradients, rtol=tolerance, atol=1e-6)
    narrow = np.empty_like(out)
    lane.pull(3, keys, narrow, training=False, wire=wire)
    np.testing.assert_array_equal(narrow, out)  # these were rounded on their way there
    sent = lane.counters()["bytes_sent"]
    lane.push(3, keys, gradients, *rest, tick=1)
    assert lane.counters()["bytes_sent"] - sent > len(keys) * dim * 4
    assert made[0].counters()["rows_pulled"] + made[1].counters()["rows_pulled"] == 2 * len(keys)


def test_what_is_too_large_for_two_bytes_stays_finite(cluster: Any) -> None:
    lane, _, _ = cluster(1, dim=4, optimizer="sgd", learning_rate=1.0, init_scale=0.0)
    gradients = np.array([[1e6, -1e6, 65519.0, 1e-9]], np.float32)
    one = np.ones(1, np.float32)
    lane.push(3, np.array([1], np.uint64), gradients, one, one, np.zeros(1, np.uint16), tick=1, wire="fp16")
    out = np.empty((1, 4), np.float32)
    lane.pull(3, np.array([1], np.uint64), out, training=False)
    assert out.tolist() == [[-65504.0, 65504.0, -65504.0, 0.0]]


@pytest.mark.parametrize("wire", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_gradient_that_is_not_finite_is_refused(cluster: Any, wire: str, value: float) -> None:
    lane, _, tables = cluster(2)
    keys, gradients, *rest = arrays(keys_in_order(40))
    gradients[-1, 2] = value
    with pytest.raises(PeerError, match=r"pserver\.1 at .*: ModelError: the gradient of key \d+ .* is not finite"):
        lane.push(3, keys, gradients, *rest, tick=1, wire=wire)
    assert len(tables[1]) == 0
    lane.push(3, keys, np.ones_like(gradients), *rest, tick=1, wire=wire)
    assert len(tables[1]) > 0


def test_servers_without_keys_are_not_asked_but_count_every_step(cluster: Any) -> None:
    lane, made, tables = cluster(3)
    keys, *rest = arrays(np.array([key for key in keys_in_order(50).tolist() if bucket_of(key) < 1000], np.uint64))
    lane.push(3, keys, *rest, tick=1)
    assert lane.pull(3, keys, np.empty((len(keys), DIM), np.float32), training=True) == [1, 0, 0]
    assert [server.counters()["pulls"] for server in made] == [1, 0, 0]
    assert [table.step for table in tables] == [1, 1, 1]
    none = arrays(np.empty(0, np.uint64))
    lane.push(3, *none, tick=1)
    assert lane.pull(3, none[0], np.empty((0, DIM), np.float32), training=True) == [0, 0, 0]
    assert [table.step for table in tables] == [2, 2, 2]


def test_a_push_dropped_as_stale_is_progress_of_its_lease(cluster: Any) -> None:
    """Else a piece whose last pushes were dropped would be read again, rows that were learned before included."""
    lane, (server,), _ = cluster(1)
    keys, *rest = arrays(keys_in_order(20))
    versions = lane.pull(3, keys, np.empty((len(keys), DIM), np.float32), training=True)
    for done in (100, 200, 300):
        lane.push(3, keys, *rest, tick=1, based_on=versions, max_staleness=1, lease=7, rows_done=done)
    assert server.counters()["discarded"] == 1
    assert dict(server.progress()) == {7: 300}


def test_staleness_is_counted_and_bounded(cluster: Any) -> None:
    lane, made, tables = cluster(1)
    batch = arrays(keys_in_order(20))
    versions = lane.pull(3, batch[0], np.empty((len(batch[0]), DIM), np.float32), training=True)
    for _ in range(4):  # all based on the same pull
        lane.push(3, *batch, tick=1, based_on=versions, max_staleness=2)
    counters = made[0].counters()
    assert (counters["pushes"], counters["discarded"], tables[0].step) == (3, 1, 3)
    assert (counters["staleness_sum"], counters["staleness_max"]) == (0 + 1 + 2 + 3, 3)
    lane.push(3, *batch, tick=1, based_on=[100])  # newer than the server: it came back from an older checkpoint
    assert made[0].counters()["staleness_sum"] == 6
    with pytest.raises(ValueError, match="based_on"):
        lane.push(3, *batch, tick=1, based_on=[1, 2])


def test_what_is_stale_moves_rows_less_if_the_table_says_so(cluster: Any) -> None:
    lane, made, tables = cluster(1, optimizer="sgd", learning_rate=0.1)
    made[0].add_table(3, tables[0], damping=0.5)
    batch = arrays(keys_in_order(20))
    rows = np.empty((len(batch[0]), DIM), np.float32)
    versions = lane.pull(3, batch[0], rows, training=True)
    for staleness in range(4):
        before = rows.copy()
        lane.push(3, *batch, tick=1, based_on=versions)
        lane.pull(3, batch[0], rows, training=True)
        np.testing.assert_allclose(rows, before - 0.1 * batch[1] / (1 + staleness) ** 0.5, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="damping"):
        made[0].add_table(3, tables[0], damping=2.0)


def test_progress_of_leases(cluster: Any) -> None:
    lane, made, _ = cluster(2)
    batch = arrays(keys_in_order(20))
    for lease, rows in ((5, 100), (5, 200), (5, 150), (2**60, 7), (0, 9)):
        lane.push(3, *batch, tick=1, lease=lease, rows_done=rows)
    for server in made:
        assert sorted(server.progress()) == [(5, 200), (2**60, 7)]
        server.forget_progress([5, 6])
        assert server.progress() == [(2**60, 7)]


def test_what_does_not_fit_is_refused_with_a_reason(cluster: Any) -> None:
    lane, made, _ = cluster(2)
    keys, gradients, *rest = arrays(keys_in_order(20))
    out = np.empty((len(keys), DIM), np.float32)
    with pytest.raises(PeerError, match="no table 4 here; known: 3"):
        lane.pull(4, keys, out, training=True)
    with pytest.raises(PeerError, match="table 3 has rows of 5 weights, not 6"):
        lane.pull(3, keys, np.empty((len(keys), 6), np.float32), training=True)
    with pytest.raises(PeerError, match="table 3 has rows of 5 weights, not 4"):
        lane.push(3, keys, np.ascontiguousarray(gradients[:, :4]), *rest, tick=1)
    with pytest.raises(ValueError, match="keys must be in bucket order"):
        lane.pull(3, np.ascontiguousarray(keys[::-1]), out, training=True)
    with pytest.raises(ValueError, match="wire"):
        lane.pull(3, keys, out, training=True, wire="int8")
    with pytest.raises(ValueError, match="out"):
        lane.pull(3, keys, out[:-1], training=True)
    with pytest.raises(ValueError, match="tick"):
        lane.push(3, keys, gradients, *rest, tick=-1)
    with pytest.raises(TypeError):
        lane.pull(3, keys.astype(np.int64), out, training=True)
    lane.pull(3, keys, out, training=True)
    assert lane.counters()["reconnects"] == 0
    made[0].add_table(3, Table(dim=6))  # another in its place
    with pytest.raises(PeerError, match="rows of 6 weights"):
        lane.pull(3, keys, out, training=True)
