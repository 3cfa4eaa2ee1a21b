"""How the coordinator measures a model: pieces of other data, leased to the same trainers, which only predict."""

from __future__ import annotations

from pathlib import Path

from clickline.data.leasing.leases import LeaseTable
from clickline.progress import Watcher
from clickline.ps.coordinator.state.run_state import RunState
from clickline.ps.coordinator.supervision import Supervision
from clickline.ps.protocol.work_messages import Action
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_figures import CheckpointFigures, record
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.early_stopping import better, score
from clickline.train.evaluation.metric_lines import figures_line
from clickline.train.evaluation.metric_set import MetricSet
from clickline.train.monitoring.journal import Journal


class ModelEvaluation:
    """Validation after an epoch, and the test at the end."""

    def __init__(self, *, state: RunState, supervision: Supervision, watcher: Watcher, journal: Journal) -> None:
        self._state, self._supervision, self._watcher, self._journal = state, supervision, watcher, journal
        self._metrics = MetricSet.of(state.job.metrics, loss=state.job.train.loss)

    def validate(self) -> bool:
        """Evaluate on the validation data; return whether this is the best so far."""
        run, settings = self._state.record, self._state.job.train
        measured = self._evaluate(Action.VALIDATE)
        run.valid, run.valid_files, run.valid_step = measured.figures, measured.files, run.step
        self._journal.line(kind="valid", step=run.step, epoch=run.epoch, figures=run.valid)
        run.validation_due = False
        metric = settings.stopping_metric
        best = run.best_score if run.best_metric == metric else None
        if better(settings, run.valid, best=best):
            run.best_score, run.best_metric = score(settings, run.valid), metric
            run.best_step, run.stale_epochs = run.step, 0
            return True
        run.stale_epochs += 1
        return False

    def test(self) -> None:
        """Figures on the test data, of the best checkpoint if validation chose one; kept beside it."""
        run, chosen = self._state.record, chosen_checkpoint(self._state)
        if chosen.step != run.step:
            self._supervision.load(chosen.path)
            self._watcher.say(f"testing the best checkpoint, {chosen.path.name}")
        measured = self._evaluate(Action.TEST)
        run.test = measured.figures
        epoch = run.epoch + (run.book is not None)
        self._journal.line(kind="test", step=chosen.step, epoch=epoch, figures=run.test)
        record(chosen, "test", measured, check=self._state.record_file.check_holder)

    def _evaluate(self, action: Action) -> CheckpointFigures:
        state, job = self._state, self._state.job
        with state.changed:
            pieces, ranges, files = state.data.evaluated("valid" if action == Action.VALIDATE else "test")
        self._watcher.begin(f"evaluating {action.value}")
        state.windows.begin_evaluation()
        state.enter("evaluating")
        attempts, first = job.cluster.piece_attempts, state.record.next_lease
        table = LeaseTable(len(pieces), attempts=attempts, ranges=ranges, first=first)
        state.use_leases(table, training=False)
        state.offer(action, pieces)
        self._supervision.wait(lambda: state.leases.table.complete)
        state.offer(None)
        if unread := len(table.unreachable):
            state.failures.note(f"{action.value}: figures are without {unread} pieces, whose nodes were gone")
        state.finish_leases()
        self._watcher.end()
        figures = state.windows.scores.figures(state.schema.labels, self._metrics)
        self._watcher.say(f"{action.value}: " + figures_line(figures))
        return CheckpointFigures(figures, files)


def chosen_checkpoint(state: RunState) -> Checkpoint:
    """The checkpoint that a run came to: the best one by validation, or the last."""
    best, last = state.record.best_step, state.record.checkpoint
    if best is None and last is not None:  # steps may have been reported since
        return checkpoint_files.read(Path(last))
    step = state.record.step if best is None else best
    return checkpoint_files.read(state.directory / "checkpoints" / f"step-{step:010d}")
