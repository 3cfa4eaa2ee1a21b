"""Servers that die, stop, or come back elsewhere, while clients read: real processes and real signals."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickline._native import CubeClient
from support.cubes.native_servers import ServerProcess, floats, write_table

Spawn = Callable[[], ServerProcess]
Connect = Callable[..., CubeClient]
KEYS = np.arange(0, 200, dtype=np.uint64)


def cluster(spawn: Spawn, directory: Path, *, shards: int, replicas: int) -> list[list[ServerProcess]]:
    servers = [[spawn() for _ in range(replicas)] for _ in range(shards)]
    for shard, group in enumerate(servers):
        path = write_table(directory / f"{shard}-1", 1, 200, shard=shard, shards=shards)
        for server in group:
            server.load(1, user=path)
            server.switch(1, 1)
    return servers


def addresses(servers: list[list[ServerProcess]]) -> list[list[str]]:
    return [[server.address for server in group] for group in servers]


class Readers:
    """Threads that read all the time and note what was wrong."""

    def __init__(self, client: CubeClient, count: int) -> None:
        self.batches = 0
        self.wrong: list[Any] = []
        self._done = False
        self._threads = [threading.Thread(target=self._read, args=(client,)) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _read(self, client: CubeClient) -> None:
        while not self._done:
            try:
                got = client.get("user", KEYS)
            except Exception as error:
                self.wrong.append(error)
                return
            rows = floats(got.values)
            if got.code or not (rows[:, 0] == got.version).all() or not (rows[:, 1] == KEYS).all():
                self.wrong.append((got.code, got.version, got.errors, rows))
            self.batches += 1

    def more(self, batches: int) -> None:
        """Waits until so many more have been read."""
        end = self.batches + batches
        while self.batches < end and not self.wrong:
            time.sleep(0.001)

    def stop(self) -> None:
        self._done = True
        for thread in self._threads:
            thread.join()


def test_a_killed_replica_costs_no_error(tmp_path: Path, spawn: Spawn, connect: Connect) -> None:
    servers = cluster(spawn, tmp_path, shards=2, replicas=2)
    client = connect(addresses(servers))
    readers = Readers(client, 2)
    readers.more(50)
    servers[0][1].kill()
    readers.more(200)
    readers.stop()
    assert readers.wrong == []
    assert client.counts()["failures"] > 0


def test_one_version_for_each_batch_while_versions_switch(tmp_path: Path, spawn: Spawn, connect: Connect) -> None:
    servers = cluster(spawn, tmp_path, shards=2, replicas=2)
    client = connect(addresses(servers))
    readers = Readers(client, 3)
    number = 1
    for version in (2, 3, 4, 3, 5):  # with a rollback
        readers.more(30)
        number += 1
        for shard, group in enumerate(servers):
            path = tmp_path / f"{shard}-{version}"
            if not path.exists():
                write_table(path, version, 200, shard=shard, shards=2)
            for server in group:
                if version not in server.tell("versions"):
                    server.load(version, user=path)
        for group in servers:
            for server in group:
                server.switch(version, number)
                readers.more(1)
        for group in servers:
            for server in group:
                for old in server.tell("versions"):
                    if old not in (version, version - 1):
                        server.tell("drop", old)
    readers.more(30)
    readers.stop()
    assert readers.wrong == []
    assert client.version == 5
    assert client.counts()["version_moves"] >= 3
    assert client.counts()["mismatches"] == 0


def test_hedging_gets_around_a_stopped_replica(tmp_path: Path, spawn: Spawn, connect: Connect) -> None:
    servers = cluster(spawn, tmp_path, shards=1, replicas=2)
    client = connect(addresses(servers), timeout=30.0, hedge=0.02)
    for _ in range(4):  # connections to both
        assert client.get("user", KEYS).code == 0
    servers[0][0].stop()
    began = time.monotonic()
    for _ in range(50):
        got = client.get("user", KEYS)
        assert got.code == 0
        np.testing.assert_array_equal(floats(got.values)[:, 1], KEYS)
    assert time.monotonic() - began < 30  # not one of them waited for the timeout
    assert client.counts()["hedges_won"] >= 1
    servers[0][0].resume()
    for _ in range(50):  # late answers come now, and are not taken for those of these
        some = np.random.default_rng(3).choice(KEYS, 20)
        np.testing.assert_array_equal(floats(client.get("user", some).values)[:, 1], some)


def test_a_timeout_is_tried_on_another_replica(tmp_path: Path, spawn: Spawn, connect: Connect) -> None:
    servers = cluster(spawn, tmp_path, shards=1, replicas=2)
    client = connect(addresses(servers), timeout=0.5)
    servers[0][0].stop()
    for _ in range(6):
        assert client.get("user", KEYS).code == 0
    assert client.counts()["retries"] >= 1
    servers[0][0].resume()


def test_codes_say_which_shards_failed(tmp_path: Path, spawn: Spawn, connect: Connect) -> None:
    servers = cluster(spawn, tmp_path, shards=2, replicas=2)
    client = connect(addresses(servers))
    assert client.get("user", KEYS).code == 0
    for server in servers[1]:
        server.kill()
    some = client.get("user", KEYS)
    lost = KEYS * np.uint64(0x9E3779B97F4A7C15) >= np.uint64(1 << 63)
    assert some.code == -2
    np.testing.assert_array_equal(some.status, np.where(lost, 3, 0))
    np.testing.assert_array_equal(floats(some.values)[lost], 0)
    np.testing.assert_array_equal(floats(some.values)[~lost, 1], KEYS[~lost])
    assert "shard 1, " in some.errors[0]
    for server in servers[0]:
        server.kill()
    none = client.get("user", KEYS)
    assert (none.code, set(none.status.tolist()), none.values.shape) == (-3, {3}, (200, 16))
    assert not none.values.any()
    again = spawn()
    again.load(1, user=tmp_path / "0-1")
    again.switch(1, 1)
    client.set_addresses(0, [again.address])
    assert client.get("user", KEYS).code == -2


def test_a_signal_ends_a_get_that_waits(tmp_path: Path, spawn: Spawn, connect: Connect) -> None:
    class Rang(Exception):
        pass

    def ring(*_: object) -> None:
        raise Rang

    servers = cluster(spawn, tmp_path, shards=1, replicas=1)
    client = connect(addresses(servers), timeout=60.0)
    assert client.get("user", KEYS).code == 0
    servers[0][0].stop()
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Rang):
            client.get("user", KEYS)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    servers[0][0].resume()
    assert client.get("user", KEYS[:3]).values.shape == (3, 16)
