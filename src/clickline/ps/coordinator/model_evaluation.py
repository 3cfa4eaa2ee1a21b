"""How the coordinator measures a model: pieces of other data, leased to the same trainers, which only predict."""

from __future__ import annotations

from pathlib import Path

from clickline.config import Job
from clickline.data.leasing import pieces
from clickline.data.leasing.leases import LeaseTable
from clickline.data.schema import Schema
from clickline.progress import Watcher
from clickline.ps.coordinator.handlers import Desk
from clickline.ps.coordinator.metric_windows import Scores
from clickline.ps.coordinator.supervision import Waiting
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_figures import CheckpointFigures, measured_on, record
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.early_stopping import better, score
from clickline.train.evaluation.metric_lines import figures_line
from clickline.train.evaluation.metric_set import MetricSet
from clickline.train.monitoring.journal import Journal


class Examining(Waiting):
    """Validation after an epoch, and the test at the end."""

    def __init__(self, *, job: Job, desk: Desk, watcher: Watcher, schema: Schema, directory: Path) -> None:
        super().__init__(job=job, desk=desk, watcher=watcher)
        self.schema, self.directory = schema, directory
        self.metrics = MetricSet.of(job.metrics)
        self._journal: Journal | None = None

    def _validate(self) -> bool:
        """Evaluate; return whether this is the best so far."""
        standing = self.standing
        measured = self._evaluate("valid", self.job.data.valid)
        standing.valid, standing.valid_files, standing.valid_step = measured.figures, measured.files, standing.step
        self._note("valid", standing.epoch, standing.valid, step=standing.step)
        standing.validation_due = False
        settings = self.job.train
        metric = settings.early_stopping.metric
        best = standing.best_score if standing.best_metric == metric else None
        if better(settings, standing.valid, best=best):
            standing.best_score, standing.best_metric = score(settings, standing.valid), metric
            standing.best_step, standing.stale_epochs = standing.step, 0
            return True
        standing.stale_epochs += 1
        return False

    def _test(self) -> None:
        """Figures on the test data, of the best checkpoint if validation chose one; kept beside it."""
        standing, chosen = self.standing, self.chosen()
        if chosen.step != standing.step:
            self._load(chosen.path)
            self.watcher.say(f"testing the best checkpoint, {chosen.path.name}")
        measured = self._evaluate("test", self.job.data.test)
        standing.test = measured.figures
        epoch = standing.epoch + (standing.book is not None)
        self._note("test", epoch, standing.test, step=chosen.step)
        record(chosen, "test", measured, check=self.desk.file.check_holder)

    def chosen(self) -> Checkpoint:
        """The checkpoint that this run came to: the best one by validation, or the last."""
        best, last = self.standing.best_step, self.standing.checkpoint
        if best is None and last is not None:  # steps may have been reported since
            return checkpoint_files.read(Path(last))
        step = self.standing.step if best is None else best
        return checkpoint_files.read(self.directory / "checkpoints" / f"step-{step:010d}")

    def _evaluate(self, which: str, paths: list[str]) -> CheckpointFigures:
        desk = self.desk
        files = measured_on(self.job.data, paths)
        found = pieces.split_into_pieces(self.job.data, paths, **self._cutting())
        self.watcher.begin(f"evaluating {which}")
        desk.scores = Scores()
        desk.enter("evaluating")
        attempts, first = self.job.cluster.piece_attempts, self.standing.next_lease
        desk.take_book(LeaseTable(len(found), attempts=attempts, first=first), training=False)
        desk.offer(which, found)
        self._wait(lambda: desk.book.complete)
        desk.offer(None, [])
        desk.close_book()
        self.watcher.end()
        figures = desk.scores.figures(self.schema.labels, self.metrics)
        self.watcher.say(f"{which}: " + figures_line(figures))
        return CheckpointFigures(figures, files)

    def _note(self, kind: str, epoch: int, figures: dict[str, float], *, step: int) -> None:
        if self._journal is not None:
            self._journal.line(kind=kind, step=step, epoch=epoch, figures=figures)

    def _cutting(self) -> dict[str, int]:
        standing, cluster = self.standing, self.job.cluster
        standing.cut_for = standing.cut_for or cluster.trainers
        if standing.cut_bytes is None:
            standing.cut_bytes = cluster.piece_bytes
        return {"piece_bytes": standing.cut_bytes, "trainers": standing.cut_for}
