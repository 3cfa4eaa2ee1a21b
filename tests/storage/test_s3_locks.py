"""Locks in a bucket: one holder at a time, whoever has died."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from clickline.errors import VersionError
from clickline.objects.object_lock import ObjectLock, holder_record
from clickline.versions.store import Store, open_store
from support.doubles.s3_server import CuttingProxy

NAME = ".publishing.lock"


@pytest.fixture
def store(bucket: str) -> Store:
    return open_store(f"s3://{bucket}/versions")


def of_a_dead_process() -> bytes:
    record = json.loads(holder_record())
    return json.dumps({**record, "born": record["born"] - 1}).encode()


def winners(store: Store, count: int) -> list[ObjectLock]:
    """Those of `count` locks that are acquired, all tried at the same moment."""
    barrier = threading.Barrier(count)
    locks = [ObjectLock(store, NAME) for _ in range(count)]

    def attempt(lock: ObjectLock) -> bool:
        barrier.wait()
        return lock.acquire()

    with ThreadPoolExecutor(count) as pool:
        return [lock for lock, won in zip(locks, pool.map(attempt, locks), strict=True) if won]


def test_of_many_at_once_one_gets_the_lock(store: Store) -> None:
    (winner,) = winners(store, 8)
    assert not ObjectLock(store, NAME).acquire()
    winner.release()
    assert ObjectLock(store, NAME).acquire()


class Overtaken:
    """A file system that lets something happen just before it writes an object."""

    def __init__(self, system: Any, meanwhile: Callable[[], object]) -> None:
        self._system, self._meanwhile = system, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        self._meanwhile()
        self._system.pipe_file(path, value, **options)


def _overtaken(store: Store, meanwhile: Callable[[], object]) -> Store:
    """The same store, with something that happens just before an object is written."""
    return replace(store, storage=replace(store.storage, system=Overtaken(store.system, meanwhile)))


@pytest.mark.parametrize("before", ["free", "of a dead process"])
def test_who_is_overtaken_between_looking_and_writing_does_not_get_the_lock(store: Store, before: str) -> None:
    if before != "free":
        store.write(NAME, of_a_dead_process())
    fast = ObjectLock(store, NAME)
    won: list[bool] = []
    slow = ObjectLock(_overtaken(store, lambda: won.append(fast.acquire())), NAME)
    assert not slow.acquire()
    assert won == [True]
    fast.release()
    assert store.names() == []


def test_of_many_at_once_one_takes_over_the_lock_of_a_dead_process(store: Store) -> None:
    store.write(NAME, of_a_dead_process())
    (winner,) = winners(store, 8)
    assert not ObjectLock(store, NAME).acquire()
    winner.release()
    assert store.names() == []


def test_a_lock_is_taken_over_again_if_its_second_holder_dies(store: Store) -> None:
    store.write(NAME, of_a_dead_process())
    second = ObjectLock(store, NAME)
    assert second.acquire()
    taken_over = next(name for name in store.names() if name != NAME)
    store.write(taken_over, of_a_dead_process())
    third = ObjectLock(store, NAME)
    assert third.acquire()
    assert not ObjectLock(store, NAME).acquire()
    third.release()
    assert store.names() == []


def test_a_lock_released_while_it_is_being_taken_over_is_not_held_twice(store: Store) -> None:
    """A process reads the chain of a dead one, pauses, and goes on when that chain is gone and the lock is new."""
    store.write(NAME, of_a_dead_process())
    late = ObjectLock(store, NAME)
    read = list(late._links())
    early = ObjectLock(store, NAME)
    assert early.acquire()
    early.release()
    holder = ObjectLock(store, NAME)
    assert holder.acquire()
    late._links = lambda: iter(read)  # type: ignore[method-assign]
    assert not late.acquire()
    holder.release()
    assert store.names() == []


def test_a_lock_whose_answer_was_lost_is_ours(store: Store, proxy: CuttingProxy, bucket: str) -> None:
    through = open_store(f"s3://{bucket}/versions")
    assert through.names() == []  # connects
    proxy.cut("reply", "PUT", times=1)
    lock = ObjectLock(through, NAME)
    assert lock.acquire()
    assert proxy.cuts == 1
    assert not ObjectLock(store, NAME).acquire()


def test_who_waits_in_vain_is_told_for_whom_and_what_to_do(store: Store) -> None:
    said: list[str] = []
    with (
        store.locked("publishing"),
        pytest.raises(VersionError, match=r"held by process \d+ on .*; if that process has ended, delete this file"),
        store.locked("publishing", wait=0.0, say=said.append),
    ):
        pass
    assert store.names() == []
