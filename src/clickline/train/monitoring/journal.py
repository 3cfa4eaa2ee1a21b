"""The journal of a run: what is measured while training, and where it is written.

Per interval: AUC, AUC of the last batch, logloss, calibration and more figures of the first label, the loss over all
labels where there are several, and rows per second go to the log, to metrics.jsonl and to TensorBoard. The rows of an
unfinished interval are part of a checkpoint, so a resumed run writes the lines that an uninterrupted one would have
written. Epochs count from 1.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from clickline.config.metric_settings import MetricSettings
from clickline.data.batch import Batch
from clickline.errors import CheckpointError
from clickline.files.atomic import replace_file
from clickline.train.evaluation.metrics import auc, measure
from clickline.train.learner import Learned
from clickline.train.monitoring.tensorboard import EventWriter

METRICS = "metrics.jsonl"


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

    def figures(self, settings: MetricSettings, *, labels: int) -> dict[str, float]:
        """The figures of a line of metrics, for a model with `labels` labels."""
        whole = measure(
            np.concatenate(self.logits),
            np.concatenate(self.labels),
            weights=np.concatenate(self.weights) if self.weights else None,
            threshold=settings.threshold,
            bins=settings.calibration_bins,
        )
        figures: dict[str, float] = whole.to_dict()
        if labels > 1:  # with one label, this is the logloss
            figures["loss"] = float(np.mean(self.losses))
        batch_auc = auc(self.logits[-1], self.labels[-1])
        if batch_auc is not None:
            figures["batch_auc"] = batch_auc
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


class Journal:
    """Appends lines of metrics to the run's directory."""

    failure: CheckpointError | None = None
    """Why a line could not be written, for a thread that did not write it."""

    def __init__(
        self,
        directory: Path,
        *,
        tensorboard: bool,
        resumed_at: int | None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` is called before each line, and raises if this process may not write there any more."""
        directory.mkdir(parents=True, exist_ok=True)
        self._path, self._check = directory / METRICS, check
        if resumed_at is not None:
            self._forget_after(resumed_at)
        self._lines = self._path.open("a" if resumed_at is not None else "w", encoding="utf-8")
        self._events = EventWriter(directory / "tensorboard") if tensorboard else None

    def line(self, *, kind: str, step: int, epoch: int, figures: Mapping[str, float]) -> None:
        """One line of metrics: `kind` is train, valid or test."""
        self._check()
        try:
            self._lines.write(json.dumps({"kind": kind, "step": step, "epoch": epoch, **figures}) + "\n")
            self._lines.flush()
            if self._events is not None:
                numbers = {f"{kind}/{name}": float(v) for name, v in figures.items() if isinstance(v, int | float)}
                self._events.scalars(step=step, values=numbers)
        except OSError as error:
            self.failure = CheckpointError(
                f"{self._path.parent}: metrics cannot be written: {error}; --resume continues from the newest "
                "checkpoint, --fresh starts over where there is none yet"
            )
            raise self.failure from error

    def rewind(self, step: int) -> None:
        """Drop the lines after a step, which will be taken again."""
        self._check()
        self._lines.close()
        self._forget_after(step)
        # Opened again: the old handle would append to the file that was unlinked by the replacement.
        self._lines = self._path.open("a", encoding="utf-8")

    def close(self) -> None:
        with suppress(OSError):  # of a full disk, which `line` has said: what could not be written is still held back
            self._lines.close()
        if self._events is not None:
            with suppress(OSError):
                self._events.close()

    def _forget_after(self, step: int) -> None:
        """Drop lines that the killed run wrote past the checkpoint; they will be written again."""
        if not self._path.exists():
            return
        # The killed run may have written lines after its last checkpoint: they will be written again.
        kept = []
        for line in self._path.read_text(encoding="utf-8").splitlines(keepends=True):
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line)
            except (ValueError, KeyError):  # the line the kill cut short
                break
        try:
            replace_file(self._path, "".join(kept).encode())
        except OSError as error:
            raise CheckpointError(
                f"{self._path}: cannot be written: {error}; --resume continues when it can"
            ) from error
