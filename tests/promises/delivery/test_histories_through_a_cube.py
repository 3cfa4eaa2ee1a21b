"""A base and deltas, with deletes, delivered one by one, read as one full base does: through servers, after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from support.cubes.cube_processes import CubeProcesses
from support.cubes.cube_readers import Known, judge
from support.versions.version_stores import keys_from

pytestmark = pytest.mark.heavy
POOL = keys_from(1, 500)
DELTAS = 6


@pytest.mark.parametrize("seed", range(3))
def test_each_step_reads_as_a_full_base(
    cube: CubeProcesses, seed: int, record_property: Callable[[str, object], None]
) -> None:
    random = np.random.default_rng(seed)
    store, known = cube.store, Known.of_store(cube.store)
    counts: Counter[str] = Counter(histories=1)
    version = store.base(random.choice(POOL, 200, replace=False))
    with cube.connect(timeout=5.0) as client:
        for step in range(DELTAS + 1):
            if step:
                # Deleted keys come from all of the pool: those that were never there, and those that come back later.
                drawn = random.permutation(POOL)
                written, deleted = random.integers(0, [80, 60])
                version = store.delta(drawn[:written], drawn[written : written + deleted])
                counts.update(deltas=1, deleted=int(deleted))
            cube.await_all(version)
            for _ in range(4):  # whichever replica answers
                found = client.get("embedding", POOL, version=version)
                wrong = judge(known, version, POOL, found.status, found.decoded())
                assert (found.code, wrong) == (0, Counter())
                counts["rows"] += len(POOL)
        full = store.same_base()
        cube.await_all(full)
        chain, base = (client.get("embedding", POOL, version=each) for each in (version, full))
    assert np.array_equal(chain.status, base.status)
    assert chain.values.tobytes() == base.values.tobytes()
    record_property("histories", dict(counts))
    print(f"\n{dict(counts)}")
