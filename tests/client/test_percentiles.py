"""Times in few numbers, and as a picture."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from clickline.client.load.percentiles import buckets, picture, summary


def test_known_times_have_known_percentiles() -> None:
    found = summary(np.arange(1, 1002) / 1e6)
    assert found == {"avg": 501.0, "50": 501.0, "80": 801.0, "90": 901.0, "99": 991.0, "99.9": 1000.0, "max": 1001.0}


def test_nothing_measured_is_no_number() -> None:
    assert set(summary([]).values()) == {None}
    assert picture([]) == []


@pytest.mark.parametrize("times", [[0.001], [0.001] * 5, [0.0, 0.0], [1e-4, 10.0], list(np.geomspace(1e-5, 1, 999))])
def test_every_time_is_in_one_bucket(times: list[float]) -> None:
    found = buckets(times)
    assert sum(count for _, _, count in found) == len(times)
    assert len(found) <= 20
    assert all(after[0] == before[1] for before, after in pairwise(found))


def test_the_longest_bar_is_the_fullest_bucket() -> None:
    lines = picture([0.001] * 100 + [0.01] * 10 + [0.1], width=40)
    assert "█" * 40 in lines[0]
    assert lines[0].endswith("  100")
    assert lines[0].lstrip().startswith("1.00 ms")
    assert sum(line.count("█") for line in lines[1:]) < 10
    assert any("▏" in line or "█" in line for line in lines[1:])  # few are not none
