"""The interval between two lines of metrics: what was predicted since the last one, and the figures of the next."""

from __future__ import annotations

import time

import numpy as np
import torch
from numpy.typing import NDArray

from clickline.config.metric_settings import MetricSettings
from clickline.config.training import Loss
from clickline.data.batch import Batch
from clickline.train.evaluation.interval_figures import batch_figures, interval_figures
from clickline.train.learner import Learned


class Interval:
    """Predictions, labels and losses since the last line of metrics."""

    def __init__(self) -> None:
        self.logits: list[NDArray[np.float32]] = []
        self.labels: list[NDArray[np.float32]] = []
        self.weights: list[NDArray[np.float32]] = []
        self.losses: list[float] = []
        self.started = time.perf_counter()
        self.timed_rows = 0

    def add(self, batch: Batch, learned: Learned) -> None:
        self.logits.append(learned.logits[:, 0])
        self.labels.append(batch.labels[:, 0])
        if batch.weights is not None:
            self.weights.append(batch.weights)
        self.losses.append(learned.loss)
        self.timed_rows += len(batch)

    @property
    def rate(self) -> float:
        return self.timed_rows / max(time.perf_counter() - self.started, 1e-9)

    def figures(self, settings: MetricSettings, *, labels: int, loss: Loss = "log") -> dict[str, float]:
        """The figures of a line of metrics, for a model with `labels` labels."""
        figures = interval_figures(
            np.concatenate(self.logits),
            np.concatenate(self.labels),
            np.concatenate(self.weights) if self.weights else None,
            settings=settings,
            loss=loss,
        )
        if labels > 1:  # with one label, this is the logloss, or the square of the RMSE
            figures["loss"] = float(np.mean(self.losses))
        figures |= batch_figures(self.logits[-1], self.labels[-1], loss=loss)
        figures["rows_per_second"] = self.rate
        return figures

    def tensors(self) -> dict[str, torch.Tensor]:
        """For a checkpoint. Batches are kept apart by their lengths: the last one's AUC is a figure of its own."""
        if not self.logits:
            return {}
        out = {
            "interval.logits": torch.from_numpy(np.concatenate(self.logits)),
            "interval.labels": torch.from_numpy(np.concatenate(self.labels)),
            "interval.sizes": torch.tensor([len(part) for part in self.logits]),
            "interval.losses": torch.tensor(self.losses, dtype=torch.float64),
        }
        if self.weights:
            out["interval.weights"] = torch.from_numpy(np.concatenate(self.weights))
        return out

    @classmethod
    def restored(cls, tensors: dict[str, torch.Tensor]) -> Interval:
        # Time and timed rows begin anew: the rate must not include the time between the kill and the resume.
        interval = cls()
        if "interval.sizes" in tensors:
            cuts = np.cumsum(tensors["interval.sizes"].numpy())[:-1]
            interval.logits = np.split(tensors["interval.logits"].numpy(), cuts)
            interval.labels = np.split(tensors["interval.labels"].numpy(), cuts)
            interval.losses = tensors["interval.losses"].tolist()
            if "interval.weights" in tensors:
                interval.weights = np.split(tensors["interval.weights"].numpy(), cuts)
        return interval
