"""Readers who never stop, over a hundred switches, with servers killed and started again at random."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cube_processes import CubeProcesses, Reader
from version_stores import VersionStore, keys_from

SWITCHES = 100


@pytest.mark.heavy
def test_no_batch_of_two_versions_no_wrong_row_no_failed_request(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(4)
    store = VersionStore(tmp_path / "store")
    cube = CubeProcesses(tmp_path / "processes", store, shards=2, copies=2, wait=0.2)
    kills, down, back_at = 0, "", 0
    try:
        store.base(keys_from(1, 300))
        cube.start_all()
        cube.await_all(1)
        readers = [Reader(cube.connect(timeout=5.0), store, seed=seed) for seed in range(2)]
        for reader in readers:
            reader.start()
        began = time.monotonic()
        for number in range(SWITCHES):
            if down and number >= back_at:
                cube.start(down)
                down = ""
            elif not down and chance.random() < 0.15:
                cube.await_all(store.last)  # only then does the shard's other server have what readers ask for
                down, back_at = f"cube.{chance.choice(cube.names)}", number + chance.randint(1, 4)
                cube.kill(down)
                kills += 1
            if chance.random() < 0.2:
                version = store.base(keys_from(1, chance.randint(200, 400)))
            else:
                first = chance.randint(1, 300)
                version = store.delta(keys_from(first, first + 40), keys_from(first + 50, first + 60))
            cube.await_version(version)
        seconds = time.monotonic() - began
        if down:
            cube.start(down)
        cube.await_all(store.last)
        counts = [reader.stop() for reader in readers]
        text = f"{SWITCHES} switches in {seconds:.1f} s, {kills} servers killed; readers: {'; '.join(counts)}"
        record_property("counts", text)
        assert max(len(reader.versions) for reader in readers) > SWITCHES / 2
    finally:
        cube.close()
