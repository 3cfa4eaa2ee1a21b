"""Recall at k: how many of the clicks are among the k rows that were predicted highest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clickline.train.evaluation.metrics import Floats


def recall_at(scores: Floats, labels: Floats, groups: NDArray[np.uint64] | None, *, k: int) -> float | None:
    """Share of each group's clicks in its k highest rows, averaged over groups with a click; without groups, of all.

    Rows that tie for the last places share them, so the order of rows does not matter. None without a click.
    """
    if len(scores) == 0:
        return None
    group = np.zeros(len(scores), np.uint64) if groups is None else groups
    # By group, within it from the highest score down. A run is what ties: the rows of one group that have one score.
    order = np.lexsort((-scores, group))
    group, score, click = group[order], scores[order], (labels[order] > 0.5).astype(np.float64)
    new_group = np.append(True, group[1:] != group[:-1])
    run_starts = np.flatnonzero(new_group | np.append(True, score[1:] != score[:-1]))
    run_sizes = np.diff(np.append(run_starts, len(score)))
    group_starts = np.flatnonzero(new_group)
    group_of_run = (np.cumsum(new_group) - 1)[run_starts]
    rows_before = run_starts - group_starts[group_of_run]
    # The share of a run within the first k places: 1 above place k, 0 below, a fraction for the run that crosses it.
    share = np.clip((k - rows_before) / run_sizes, 0.0, 1.0)
    clicks = np.add.reduceat(click, run_starts)
    taken = np.bincount(group_of_run, clicks * share, len(group_starts))
    total = np.bincount(group_of_run, clicks, len(group_starts))
    clicked = total > 0
    return float((taken[clicked] / total[clicked]).mean()) if clicked.any() else None
