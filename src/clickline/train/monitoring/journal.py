"""The journal of a run: what is measured while training, and where it is written.

Per interval: AUC, AUC of the last batch, logloss, calibration and more figures of the first label (of numbers: RMSE,
MAE and calibration), the loss over all labels where there are several, and rows per second go to the log, to
metrics.jsonl and to TensorBoard. The rows of an unfinished interval are part of a checkpoint, so a resumed run writes
the lines that an uninterrupted one would have written. Epochs count from 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from clickline.errors import CheckpointError
from clickline.files.atomic import replace_file
from clickline.train.monitoring.tensorboard import EventWriter

METRICS = "metrics.jsonl"


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
