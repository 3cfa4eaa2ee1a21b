"""How the coordinator measures a model: pieces of other data, leased to the same trainers, which only predict."""

from __future__ import annotations

from pathlib import Path

from clickline.config import Job
from clickline.data import pieces
from clickline.data.leases import LeaseBook
from clickline.data.schema import Schema
from clickline.train.cluster.desk import Desk
from clickline.train.cluster.tallies import Scores
from clickline.train.cluster.waiting import Waiting
from clickline.train.journal import Journal
from clickline.train.stopping import better
from clickline.train.watching import Watcher


class Examining(Waiting):
    """Validation after an epoch, and the test at the end."""

    def __init__(self, *, job: Job, desk: Desk, watcher: Watcher, schema: Schema, directory: Path) -> None:
        super().__init__(job=job, desk=desk, watcher=watcher)
        self.schema, self.directory = schema, directory
        self._journal: Journal | None = None

    def _validate(self) -> bool:
        """Evaluate; return whether this is the best so far."""
        standing = self.standing
        standing.valid = self._evaluate("valid", self.job.data.valid)
        self._note("valid", standing.epoch - 1, standing.valid)
        auc = standing.valid.get("auc")
        if better(self.job.train, auc=auc, best=standing.best_auc):
            standing.best_auc, standing.best_step, standing.stale_epochs = auc, standing.step, 0
            return True
        standing.stale_epochs += 1
        return False

    def _test(self) -> None:
        """Figures on the test data, of the best checkpoint if validation chose one."""
        standing = self.standing
        if standing.best_step is not None and standing.best_step != standing.step:
            best = self.directory / "checkpoints" / f"step-{standing.best_step:010d}"
            self._load(best)
            self.watcher.say(f"testing the best checkpoint, {best.name}")
        standing.test = self._evaluate("test", self.job.data.test)
        self._note("test", standing.epoch, standing.test)

    def _evaluate(self, which: str, paths: list[str]) -> dict[str, float]:
        desk = self.desk
        found = pieces.cut(self.job.data, paths, **self._cutting())
        self.watcher.begin(f"evaluating {which}")
        desk.scores = Scores()
        desk.enter("evaluating")
        attempts, first = self.job.cluster.piece_attempts, self.standing.next_lease
        desk.take_book(LeaseBook(len(found), attempts=attempts, first=first), training=False)
        desk.offer(which, found)
        self._wait(lambda: desk.book.complete)
        desk.offer(None, [])
        desk.close_book()
        self.watcher.end()
        figures = desk.scores.figures(list(self.schema.labels))
        self.watcher.say(
            f"{which}: " + "  ".join(f"{k} {v:.5f}" for k, v in figures.items() if k in ("auc", "logloss"))
        )
        return figures

    def _note(self, kind: str, epoch: int, figures: dict[str, float]) -> None:
        if self._journal is not None:
            self._journal.line(kind=kind, step=self.standing.step, epoch=epoch, figures=figures)

    def _cutting(self) -> dict[str, int]:
        self.standing.cut_for = self.standing.cut_for or self.job.cluster.trainers
        return {"piece_bytes": self.job.cluster.piece_bytes, "trainers": self.standing.cut_for}
