"""What a run shows while it goes on: lines of metrics, a bar, and the file that `clickline status` reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from clickline.errors import ReplacedError
from clickline.files.atomic import replace_json
from clickline.progress import Watcher
from clickline.ps.coordinator.failures import Deaths
from clickline.ps.coordinator.state import log
from clickline.ps.coordinator.status_report import status_of
from clickline.train.evaluation.metric_lines import training_line
from clickline.train.monitoring.epoch_progress import EpochProgress

STATUS = "status.json"
_STATUS_EVERY = 1.0


class Shown(Deaths):
    """Affairs that can be watched."""

    _status_written = 0.0
    _epoch_progress: EpochProgress
    say: Callable[[str], None] = staticmethod(log.info)
    """Where lines of metrics go, beside the journal."""

    def write_lines(self, *, end: bool = False) -> None:
        """Metrics, when enough batches have been reported; at the end of an epoch, of whatever is left."""
        with self.changed:
            live = [self._reached.get(p.client, -1) for p in self.roster.live("trainer")]
            reached = (1 << 62) if end else min(live, default=-1) if self.sync else self.standing.step
            while self.journal is not None:
                upto = self.intervals.due(reached=reached, trainers=len(live))
                if upto is None:
                    break
                figures = self.intervals.line(upto)
                step = upto if self.sync else self.standing.step
                epoch = self.standing.epoch + 1
                self.journal.line(kind="train", step=step, epoch=epoch, figures=figures)
                progress = self._epoch_progress.text(self._share())
                self.say(training_line(step=step, epoch=epoch, figures=figures, progress=progress))

    def begin_epoch(self) -> None:
        """The time that is left is counted from here."""
        self._epoch_progress.begin()

    def _share(self) -> float | None:
        """How much of what is offered to the trainers is done, by pieces of the data."""
        return None if self.offered is None or not self.pieces else self.book.done / len(self.pieces)

    def show(self, watcher: Watcher) -> None:
        """Move the bar; write the status now and then."""
        with self.changed:
            share, loss = self._share(), self.intervals.loss
            auc = self._epoch_progress.recent_auc(*self.intervals.recent())
            facts = {"rows": f"{self.standing.rows:,}", "rows/s": f"{self.intervals.rate:,.0f}"}
            if loss is not None:
                facts["loss"] = f"{loss:.4f}"
            if auc is not None:
                facts["auc"] = f"{auc:.4f}"
            facts["trainers"] = str(len(self.roster.live("trainer")))
        watcher.advance(share=share, facts=facts)
        if time.monotonic() - self._status_written > _STATUS_EVERY:
            self.write_status()

    def write_status(self) -> None:
        """For `clickline status`."""
        if self.overtaken is not None:
            return
        self._status_written = time.monotonic()
        with self.changed:
            status = status_of(self)
        with suppress(OSError, ReplacedError):  # a full disk must not end a run for the sake of its status
            self.file.check_holder()
            replace_json(self.directory / STATUS, status, synced=False)
