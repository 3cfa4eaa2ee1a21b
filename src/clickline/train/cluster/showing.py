"""What a run shows while it goes on: lines of metrics, a bar, and the file that `clickline status` reads."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Any

from clickline.train.cluster.affairs import log
from clickline.train.cluster.deaths import Deaths
from clickline.train.watching import Watcher

STATUS = "status.json"
_STATUS_EVERY = 1.0


class Shown(Deaths):
    """Affairs that can be watched."""

    _status_written = 0.0

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
                self.journal.line(kind="train", step=step, epoch=self.standing.epoch, figures=figures)
                shown = ("loss", "auc", "logloss", "rows_per_second")
                log.info("step %d  %s", step, "  ".join(f"{k} {figures[k]:.5g}" for k in shown if k in figures))

    def show(self, watcher: Watcher) -> None:
        """Move the bar; write the status now and then."""
        with self.changed:
            book, loss = self.book, self.intervals.loss
            share = None if self.offered is None or not self.pieces else book.done / len(self.pieces)
            facts = {"rows": f"{self.standing.rows:,}", "rows/s": f"{self.intervals.rate:,.0f}"}
            if loss is not None:
                facts["loss"] = f"{loss:.4f}"
            facts["trainers"] = str(len(self.roster.live("trainer")))
        watcher.advance(share=share, facts=facts)
        if time.monotonic() - self._status_written > _STATUS_EVERY:
            self.write_status()

    def write_status(self) -> None:
        """For `clickline status`."""
        self._status_written = time.monotonic()
        aside = self.directory / f".{STATUS}.{os.getpid()}"
        with suppress(OSError):  # a full disk must not end a run for the sake of its status
            aside.write_text(json.dumps(self._status(), indent=1), encoding="utf-8")
            aside.replace(self.directory / STATUS)

    def _status(self) -> dict[str, Any]:
        with self.changed:
            standing, book = self.standing, self.book
            return {
                "time": time.time(),
                "job": self.job.name,
                "strategy": self.job.way,
                "phase": standing.phase,
                "why": self._stop,
                "epoch": standing.epoch,
                "step": standing.step,
                "rows": standing.rows,
                "rows_per_second": round(self.intervals.rate, 1),
                "loss": self.intervals.loss,
                "auc": standing.valid.get("auc"),
                "generation": standing.generation,
                "members": self.roster.to_list(),
                "pieces": {
                    "done": book.done,
                    "active": len(book.active),
                    "left": book.remaining,
                    "set_aside": standing.set_aside + self.set_aside(),
                },
                "repeated_rows": standing.repeated_rows + book.repeated_rows,
                "lost_pushes": self.lost_pushes(),
                "retries": self.retries(),
                "checkpoint": {
                    "path": standing.checkpoint,
                    "pause_seconds": standing.pause_seconds,
                    "cuts": standing.cuts,
                },
                "faults": standing.faults[-20:],
            }
