"""What a get gives back: rows, what is missing, and errors that name what is not there."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clickline._native import CubeClient, CubeServer, Dictionary, Lane, Layers, write_dictionary
from clickline.errors import PeerError
from support.cubes.native_servers import JOB, TOKEN, floats, write_table

Serve = Callable[..., CubeServer]
Connect = Callable[..., CubeClient]


def layers(path: Path) -> Layers:
    return Layers([Dictionary(str(path))])


def keys(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def test_rows_come_in_the_order_of_the_keys(tmp_path: Path, serve: Serve, connect: Connect) -> None:
    servers = [serve() for _ in range(2)]
    for shard, server in enumerate(servers):
        server.load(3, {"user": layers(write_table(tmp_path / f"{shard}.dict", 3, 500, shard=shard, shards=2))})
        server.switch(3, 1)
    client = connect([[server.address] for server in servers])
    wanted = np.array([7, 499, 500, 7, 0, 2**64 - 1, *list(range(300))], np.uint64)
    got = client.get("user", wanted)
    found = wanted < 500
    assert (got.version, got.code, got.dtype, got.dim, got.row_bytes) == (3, 0, 1, 4, 16)
    assert got.errors == []
    assert got.offsets is None
    np.testing.assert_array_equal(got.status, np.where(found, 0, 1))
    rows = floats(got.values)
    np.testing.assert_array_equal(rows[found, 0], 3)
    np.testing.assert_array_equal(rows[found, 1], wanted[found].astype(np.float32))
    np.testing.assert_array_equal(rows[~found], 0)
    counts = client.counts()
    assert counts["keys"] == len(wanted)
    assert counts["unique_keys"] == 303
    assert counts["missing"] == 2
    assert all(requests >= 1 for requests in counts["requests"])
    assert sum(server.counts()["keys"] for server in servers) == 303


def test_only_shards_that_own_keys_are_asked(tmp_path: Path, serve: Serve, connect: Connect) -> None:
    servers = [serve() for _ in range(2)]
    for shard, server in enumerate(servers):
        server.load(1, {"user": layers(write_table(tmp_path / f"{shard}.dict", 1, 50, shard=shard, shards=2))})
        server.switch(1, 1)
    client = connect([[server.address] for server in servers])
    client.get("user", keys(0))  # of the first bucket
    assert servers[1].counts()["requests"] == 0


def test_tables_may_differ_in_shape_and_values_in_size(tmp_path: Path, serve: Serve, connect: Connect) -> None:
    write_dictionary(str(tmp_path / "wide"), keys(1, 2), np.full((2, 256), 5, np.uint8), dtype=2, dim=128)
    texts = [b"", b"one", b"a longer one"]
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.uint64)
    flat = np.frombuffer(b"".join(texts), np.uint8)
    write_dictionary(str(tmp_path / "texts"), keys(10, 11, 12), (offsets, flat), dtype=0, dim=0)
    server = serve()
    server.load(
        1,
        {
            "user": layers(write_table(tmp_path / "user", 1, 10)),
            "wide": layers(tmp_path / "wide"),
            "texts": layers(tmp_path / "texts"),
        },
    )
    server.switch(1, 1)
    client = connect([[server.address]])
    wide = client.get("wide", keys(2, 9))
    assert (wide.dtype, wide.dim, wide.values.shape) == (2, 128, (2, 256))
    assert wide.values[0].tolist() == [5] * 256
    some = client.get("texts", keys(12, 99, 11, 10, 12))
    assert some.status.tolist() == [0, 1, 0, 0, 0]
    assert some.offsets is not None
    ends = some.offsets.tolist()
    cut = [some.values[begin:end].tobytes() for begin, end in itertools.pairwise(ends)]
    assert cut == [b"a longer one", b"", b"one", b"", b"a longer one"]
    assert client.get("user", keys()).values.shape == (0, 16)


def test_what_is_not_there_is_named(tmp_path: Path, serve: Serve, connect: Connect) -> None:
    server = serve()
    client = connect([[server.address]])
    empty = client.get("user", keys(1, 2))
    assert (empty.code, empty.status.tolist(), empty.version) == (-3, [3, 3], 0)
    assert "empty: no version is being served" in empty.errors[0]
    server.load(4, {"user": layers(write_table(tmp_path / "user", 4, 10))})
    server.switch(4, 1)
    assert client.get("user", keys(1)).code == 0
    with pytest.raises(PeerError, match=r"^no-such-version: no replica has version 5 .*loaded: 4"):
        client.get("user", keys(1), version=5)
    with pytest.raises(PeerError, match=r"^no-such-table: version 4 has no table 'item'; it has: user"):
        client.get("item", keys(1))
    with pytest.raises(ValueError, match="numbered from 1"):
        client.get("user", keys(1), version=0)
    with pytest.raises(TypeError):
        client.get("user", np.array([1], np.int64))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="version 4 is loaded already"):
        server.load(4, {})
    with pytest.raises(ValueError, match="is the current one"):
        server.drop(4)
    with pytest.raises(ValueError, match="version 9 is not loaded; loaded: 4"):
        server.switch(9, 2)
    assert (server.versions(), server.current()) == ([4], (4, 1))


def test_strangers_are_refused_and_calls_are_answered(tmp_path: Path, serve: Serve, connect: Connect) -> None:
    server = serve(handler=lambda name, client, op, body: [op.encode(), b" ", body])
    server.load(1, {"user": layers(write_table(tmp_path / "user", 1, 10))})
    server.switch(1, 1)
    stranger = connect([[server.address]], token=b"another", retries=0).get("user", keys(1))
    assert stranger.code == -3
    assert "wrong token" in stranger.errors[0]
    lane = Lane([server.address], token=TOKEN, job=JOB, name="agent", client=1, lane=0)
    assert lane.call("status", [[b"please"]]) == [b"status please"]
    lane.close()
    client = connect([[server.address]])
    client.close()
    with pytest.raises(PeerError, match="closed"):
        client.get("user", keys(1))
