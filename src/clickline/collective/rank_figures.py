"""Figures over all ranks' rows, as exact as those of one process: predictions travel to rank 0 and are measured there.

A step's rows are put together in the order of ranks, so an interval of several ranks is like that of one process whose
batches were all ranks' batches, in a checkpoint as well.
"""

from __future__ import annotations

import numpy as np
import torch

from clickline.collective.rank_exchange import RankExchange
from clickline.train.evaluation.evaluation import Predictions
from clickline.train.monitoring.metric_interval import Interval


def collected(interval: Interval, exchange: RankExchange) -> Interval | None:
    """On rank 0, the interval of all ranks; None elsewhere."""
    parts = [Interval.restored(tensors) for tensors in exchange.collect(interval.tensors())]
    if not parts:
        return None
    # Step by step, the rows of all ranks in the order of ranks.
    whole = Interval()
    whole.logits = [np.concatenate(step) for step in zip(*(part.logits for part in parts), strict=True)]
    whole.labels = [np.concatenate(step) for step in zip(*(part.labels for part in parts), strict=True)]
    whole.weights = [np.concatenate(step) for step in zip(*(part.weights for part in parts), strict=True)]
    whole.losses = interval.losses  # agreed on in every step
    whole.started, whole.timed_rows = interval.started, interval.timed_rows
    return whole


def without_rows(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """An interval's steps and losses, for a rank that has none of their rows: rank 0 has them all after a resume."""
    out = {name: tensor for name, tensor in tensors.items() if name.startswith("interval.")}
    for name in out.keys() & {"interval.logits", "interval.labels", "interval.weights"}:
        out[name] = out[name][:0]
    if "interval.sizes" in out:
        out["interval.sizes"] = torch.zeros_like(out["interval.sizes"])
    return out


def gathered(predictions: Predictions, exchange: RankExchange) -> Predictions | None:
    """On rank 0, the predictions of all ranks; None elsewhere."""
    tensors = {}
    if sum(map(len, predictions.logits)):
        columns = {name: getattr(predictions, name) for name in ("logits", "labels", "weights")}
        tensors = {name: torch.from_numpy(np.concatenate(parts)) for name, parts in columns.items() if parts}
        if predictions.groups:
            tensors["groups"] = torch.from_numpy(np.concatenate(predictions.groups).view(np.int64))
    parts = exchange.collect(tensors)
    if not parts:
        return None
    whole = Predictions()
    for part in parts:
        for name, tensor in part.items():
            values = tensor.numpy()
            getattr(whole, name).append(values.view(np.uint64) if name == "groups" else values)
    return whole
