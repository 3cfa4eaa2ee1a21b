"""Random faults, by a seed that is printed: whatever happens, the run ends, and its books balance.

CLICKLINE_CHAOS_SEED sets the seed. tests/support/training/random_faults.py has the schedule, and runs longer by itself.
"""

from __future__ import annotations

import os

import pytest

from support.training.random_faults import RandomFaults

pytestmark = pytest.mark.heavy
SEED = int(os.environ.get("CLICKLINE_CHAOS_SEED", "1"))


@pytest.mark.parametrize("strategy", ["async", "half_async", "sync", "geo"])
def test_a_run_ends_with_balanced_books(tmp_path, request, strategy):
    print(f"\nCLICKLINE_CHAOS_SEED={SEED}")
    found = RandomFaults(tmp_path, strategy=strategy, seed=SEED, faults=6, seconds=6).run()
    print(found)
    request.node.user_properties.append(("cluster run", found.summary()))
    assert found.balanced, found
    assert strategy != "sync" or found.repeated == 0
