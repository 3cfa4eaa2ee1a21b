"""Builds that changed after they were made: never offered, or, once somebody noticed, made again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clickline.cube.layouts.layout import Replica
from clickline.cube.transfer.instance import Instance
from clickline.cube.transfer.reconciler import Reconciler
from clickline.files.digests import file_sha256
from support.bit_flips import flip_bit
from support.cubes.local_delivery import OneDelivery
from support.eventually import eventually
from support.versions.version_stores import keys_from


@pytest.fixture
def delivery(tmp_path: Path) -> Iterator[OneDelivery]:
    with OneDelivery(tmp_path) as found:
        yield found


def test_one_that_an_agent_found_damaged_is_built_again(delivery: OneDelivery) -> None:
    version = delivery.store.base(keys_from(1, 300))
    delivery.start_transfer()
    tar = delivery.await_build(version)
    good = file_sha256(tar)
    flip_bit(tar, tar.stat().st_size // 2, 3)
    delivery.start_agent()
    delivery.await_served(version)
    assert file_sha256(tar) == good


def test_one_that_was_damaged_while_nobody_looked_is_not_offered(
    delivery: OneDelivery, caplog: pytest.LogCaptureFixture
) -> None:
    version = delivery.store.base(keys_from(1, 300))
    delivery.start_transfer()
    tar = delivery.await_build(version)
    delivery.stop_transfer()
    good = file_sha256(tar)
    flip_bit(tar, tar.stat().st_size // 2, 3)
    delivery.start_agent()
    delivery.start_transfer()
    delivery.await_served(version)
    assert file_sha256(tar) == good
    assert not [line for line in caplog.messages if line.startswith(f"download of version {version}")]


def test_one_that_is_gone_is_built_again_for_a_server_that_lost_its_disk(delivery: OneDelivery) -> None:
    version = delivery.store.base(keys_from(1, 300))
    delivery.start_transfer()
    tar = delivery.await_build(version)
    delivery.stop_transfer()
    tar.unlink()
    delivery.start_agent()
    delivery.start_transfer()
    delivery.await_served(version)


def test_a_deployed_shard_that_was_damaged_is_fetched_again(delivery: OneDelivery) -> None:
    delivery.start_transfer()
    delivery.start_agent()
    version = delivery.store.base(keys_from(1, 300))
    delivery.await_served(version)
    delivery.stop_cube()
    (tar,) = delivery.deploy.glob("data/*/*.tar")
    good = file_sha256(tar)
    flip_bit(tar, tar.stat().st_size // 2, 5)
    delivery.start_cube()
    delivery.await_served(version)
    assert file_sha256(tar) == good


def test_a_parent_that_was_changed_in_a_shard_does_not_leave_out_a_delta(delivery: OneDelivery) -> None:
    delivery.start_transfer()
    delivery.start_agent()
    delivery.store.base(keys_from(1, 300))
    for n in range(3):
        version = delivery.store.delta(keys_from(1 + 20 * n, 21 + 20 * n))
        delivery.await_served(version)
    delivery.stop_cube()
    (tar,) = delivery.deploy.glob(f"data/*_{version}/*.tar")
    at = tar.read_bytes().index(b'"parent": 3')
    flip_bit(tar, at + len(b'"parent": '), 0)  # 3 becomes 2
    delivery.start_cube()
    delivery.await_served(version)


def test_pauses_grow_until_something_changes() -> None:
    replica = Replica("http://127.0.0.1:1", "tcp:127.0.0.1:1")
    reconciler = Reconciler(
        Instance(0, 0, replica), name="d", token=b"t", peers=[], on_change=lambda: None, on_damaged=lambda _: None
    )
    pauses = [reconciler._longer_pause() for _ in range(40)]
    assert pauses[:4] == [0.25, 0.5, 1.0, 2.0]
    assert pauses == sorted(pauses) and pauses[-1] == 30.0
    reconciler.try_again()
    assert reconciler._longer_pause() == 0.25
    reconciler._agent.close()


def test_a_build_that_cannot_be_made_again_is_told_and_tried_again(delivery: OneDelivery) -> None:
    version = delivery.store.base(keys_from(1, 300))
    delivery.start_transfer()
    tar = delivery.await_build(version)
    delivery.stop_transfer()
    flips = [flip_bit(tar, -2000, 1), flip_bit(delivery.store.path / "v0000000001" / "embedding.dict", -100, 1)]
    delivery.start_agent()
    delivery.start_transfer()
    assert delivery.process is not None
    (instance,) = delivery.process.transfer.instances
    eventually(lambda: "not among the builds" in instance.message, what="a message")
    assert delivery.serves(0)
    assert flips[1].undo()
    delivery.await_served(version)
