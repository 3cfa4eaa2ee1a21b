"""Readers that never stop, over many switches, while servers and agents are killed: no batch of two versions, no
wrong row, no failed request. `PROMISE_SWITCHES=1000` runs it for longer, `PROMISE_SEED` along another way."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from support.cubes.cube_processes import NAME, TOKEN, CubeProcesses
from support.cubes.cube_readers import BatchReader, Known
from support.cubes.killers import Killer
from support.cubes.unpinned_client import Unpinned
from support.eventually import eventually
from support.processes import ENVIRONMENT
from support.programs import PROGRAMS
from support.versions.version_stores import VersionStore, keys_from

SWITCHES = int(os.environ.get("PROMISE_SWITCHES", "60"))
SEED = int(os.environ.get("PROMISE_SEED", "4"))
KEYS = 400
CLOCK = 16
"""Keys that every version writes and every batch has: two versions never look the same."""


class Publisher:
    """Bases, deltas and rollbacks, by chance."""

    def __init__(self, cube: CubeProcesses, known: Known, directory: Path) -> None:
        self._cube, self._known, self._directory = cube, known, directory
        self._random = random.Random(SEED)
        self.counts: Counter[str] = Counter(bases=0, deltas=0, rollbacks=0, refused=0)

    def switch(self) -> None:
        """One more, and wait until it is in service."""
        kind = self._random.choices(["bases", "deltas", "rollbacks"], [20, 65, 15])[0]
        if kind == "rollbacks":
            answer = self._cube.post("/rollback", {})
            if answer["success"] != "0":  # the one server that had the version before was killed: nothing to go back to
                self.counts["refused"] += 1
                kind = "deltas"
            else:
                self._cube.await_version(answer["data"]["version"])
        if kind != "rollbacks":
            self._cube.await_version(self.publish(kind))
        self.counts[kind] += 1

    def publish(self, kind: str) -> int:
        store = self._cube.store
        share = 0.9 if kind == "bases" else 0.1
        others = self._sample(share)
        keys = np.concatenate([keys_from(1, CLOCK + 1), others])
        if kind == "bases":
            version = store.base(keys, announce=False)
        else:
            version = store.delta(keys, np.setdiff1d(self._sample(0.05), others), announce=False)
        self._known.save(version, self._directory)
        store.announce(version)
        if version > 1:
            self._cube.post("/notify", {})
        return version

    def _sample(self, share: float) -> np.ndarray:
        chosen = [key for key in range(CLOCK + 1, KEYS + 1) if self._random.random() < share]
        return np.array(chosen, np.uint64)


@pytest.mark.heavy
def test_readers_see_one_version_at_a_time_and_never_fail(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    expected = tmp_path / "expected"
    store = VersionStore(tmp_path / "store")
    cube = CubeProcesses(tmp_path / "processes", store, shards=2, copies=2, wait=0.1)
    known = Known.of_store(store, highest=KEYS)
    publisher = Publisher(cube, known, expected)
    readers: list[subprocess.Popen[str]] = []
    began = time.monotonic()
    try:
        publisher.publish("bases")
        cube.start_all()
        cube.await_all(1)
        readers = [_reading_process(cube, expected, seeds=[3 * n, 3 * n + 1, 3 * n + 2]) for n in range(2)]
        unpinned = Unpinned(cube.servers, name=NAME, token=TOKEN.encode(), timeout=5.0)
        careless = BatchReader(
            lambda keys: unpinned.get("embedding", keys),
            Known.of_store(store, highest=KEYS),
            pool=keys_from(1, KEYS + 1),
            always=keys_from(1, CLOCK + 1),
            seed=99,
            pause=0.006,
        )
        careless.start()
        killers = [Killer(cube, shard, seed=SEED) for shard in range(2)]
        for killer in killers:
            killer.start()
        for _ in range(SWITCHES):
            publisher.switch()
            assert all(process.poll() is None for process in readers), "a reader ended"
        for killer in killers:
            killer.end()
        eventually(lambda: cube.all_serve(cube.serving()), what="all servers up to date in the end")
        careless.end()
        unpinned.close()
        ended = [json.loads(process.communicate("", timeout=60)[0]) for process in readers]
    finally:
        for process in readers:
            process.kill()
            process.wait()
        cube.close()
    told = [one for process in ended for one in process["readers"]]
    total: Counter[str] = Counter(publisher.counts)
    for counted in [*(one["counts"] for one in told), *(killer.counts for killer in killers)]:
        total.update(counted)
    seen = {version for one in told for version in one["versions"]}
    total.update(readers=len(told), switches=SWITCHES, versions=len(seen), published=store.last)
    total.update(unpinned_batches=careless.counts["batches"], unpinned_mixed=careless.counts["mixed"])
    slowest = max(one["slowest"] for one in told)
    record_property("readers over switches", dict(total))
    print(
        f"\n{dict(total)}, slowest read {slowest:.3f} s, {time.monotonic() - began:.1f} s in all; {ended[0]['client']}"
    )
    trouble = [line for one in told for line in one["trouble"]]
    assert (total["mixed"], total["wrong_rows"], total["misnamed"], total["failed"]) == (0, 0, 0, 0), trouble[:10]
    assert total["bases"] + total["deltas"] + total["rollbacks"] == SWITCHES
    assert total["batches"] > 10 * SWITCHES
    assert len(seen) > store.last // 2
    assert total["servers_killed"] > 0
    assert total["agents_killed"] > 0
    assert careless.counts["mixed"] > 0, "the same checks find nothing in batches that nobody keeps together"


def _reading_process(cube: CubeProcesses, expected: Path, *, seeds: list[int]) -> subprocess.Popen[str]:
    settings = {
        "servers": cube.servers,
        "name": NAME,
        "token": TOKEN,
        "expected": str(expected),
        "highest": KEYS,
        "clock": CLOCK,
        "seeds": seeds,
    }
    path = os.pathsep.join(each for each in sys.path if each)
    return subprocess.Popen(
        [sys.executable, PROGRAMS / "cube_reader.py", json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "PYTHONPATH": path},
    )
