"""The training loop: epochs over the training data, validation after each, checkpoints on the way.

One step of it, in `_pass`: take a batch from the data, let the learner learn from it, note where to resume, then log,
evict rows, save and stop, each when it is due.
"""

from __future__ import annotations

import time
from contextlib import closing

from clickline.train.checkpoints.warm_start import restart_rows
from clickline.train.early_stopping import early_stop_message, enough, last_step, stopped_early
from clickline.train.learner import Learned
from clickline.train.loop.data_pass import AnyPass
from clickline.train.loop.run import Run
from clickline.train.loop.training_log import TrainingLog
from clickline.train.monitoring.journal import Journal
from clickline.train.monitoring.metric_interval import Interval


class TrainingLoop:
    """Trains a run until its last epoch, early stopping, max_steps, or an interrupt."""

    def __init__(self, run: Run, journal: Journal) -> None:
        self._run, self._job, self._state, self._learner = run, run.job, run.state, run.learner
        self._journal = journal
        self._log = TrainingLog(job=run.job, labels=len(run.learner.schema.labels), watcher=run.watcher)
        self._stop_at = -1
        """The step after which an interrupted run stops: no push and no pull is in flight then."""

    def train(self) -> None:
        """Train, and leave a checkpoint of the last step."""
        run = self._run
        run.phase, run.progress_at = "training", time.monotonic()
        if self._state.position.validation_due:  # the run was interrupted between an epoch and its validation
            self._end_epoch()
        while self._state.position.epoch < self._job.train.epochs and not self._stopped_early and not self._enough:
            self._epoch()
        if self._stopped_early:
            position = self._state.position
            run.watcher.say(early_stop_message(position.stale_epochs, best_step=position.best_step))
        if run.checkpoints.saved_step != self._learner.step:
            run.save()

    def _epoch(self) -> None:
        """Train one epoch, or what is left of it after a resume."""
        before, resumed = self._state.position, self._state.within_epoch
        # A resumed epoch has restarted its rows before its first step; a second restart would undo what it has learned.
        if before.epoch > 0 and not resumed:
            self._restart_rows()
        self._log.begin_epoch(before.epoch + 1, step=self._learner.step)
        self._pass()
        self._run.watcher.end()
        if self._enough:
            return
        self._log.end_epoch(before.epoch + 1)
        self._evict(end_of_epoch=True)
        # A resumed pass has counted the rest of the epoch only.
        rows = before.epoch_rows if resumed else self._state.position.rows - before.rows
        self._state.end_epoch(rows=rows, validation_due=bool(self._job.data.valid))
        self._run.epoch_share = self._log.share = 0.0
        self._end_epoch()

    def _pass(self) -> None:
        """The steps of an epoch."""
        data = self._run.process.open_pass(self._state)
        with closing(data.batches()) as batches:
            for batch, mark, result in self._learner.learn(batches, barrier=self._barrier):
                data.trained(batch, mark)
                self._state.interval.add(batch, result)
                self._after_step(result, data)
                if self._enough:  # within an epoch: the state keeps the position
                    return
        data.finish()

    def _after_step(self, result: Learned, data: AnyPass) -> None:
        """Log, show, evict and save, each when it is due; then stop if the run was interrupted."""
        run, step = self._run, self._learner.step
        run.progress_at = time.monotonic()
        self._log.show(result, self._state.interval, data)
        run.epoch_share = self._log.share
        # The line and the eviction come before the save: a run that resumes from this checkpoint begins with the next
        # step and does neither of them for this step.
        if step % self._job.train.log_every == 0:
            self._write_line(data)
        self._evict(end_of_epoch=False)
        if self._checkpoint_due(step):
            run.save()
        # With staleness 1 the next pull is under way already, unless `_barrier` has seen the request before this step.
        if self._stop_at == step or (self._job.train.staleness == 0 and run.process.stop_requested()):
            run.stop()

    def _write_line(self, data: AnyPass) -> None:
        """Write a line of metrics about the interval that ends here, and begin another interval."""
        whole = self._run.process.whole_interval(self._state)
        if whole is not None:
            step, epoch = self._learner.step, self._state.position.epoch + 1
            figures = self._log.figures(whole)
            self._journal.line(kind="train", step=step, epoch=epoch, figures=figures)
            self._log.say_line(figures, step=step, epoch=epoch, data=data)
        self._state.interval = Interval()

    def _barrier(self, step: int) -> bool:
        """Whether nothing may be in flight after this step, since the run saves or stops there."""
        # Noted before the step is computed: `_after_step` may stop only where nothing was pulled ahead.
        if self._run.process.stop_requested():
            self._stop_at = step
            return True
        return self._checkpoint_due(step)

    def _end_epoch(self) -> None:
        """Validate and save, if the job wants it. The best checkpoint by validation is always saved."""
        every = self._job.checkpoint.every_epochs
        save = every > 0 and self._state.position.epoch % every == 0
        if self._state.position.validation_due:
            save = self._validate() or save
        if save:
            self._run.save()

    def _validate(self) -> bool:
        """Evaluate on the validation data; return whether this is the best so far."""
        step, epoch = self._learner.step, self._state.position.epoch
        measured = self._run.evaluate("valid", self._job.data.valid)
        self._state.validation = step, measured
        self._journal.line(kind="valid", step=step, epoch=epoch, figures=measured.figures)
        self._state.position = self._state.position.validated(self._job.train, measured.figures, step=step)
        return self._state.position.stale_epochs == 0

    def _restart_rows(self) -> None:
        """Let rows of tables with `restart_epochs` begin anew, from the weights of a warm start if there was one."""
        sparse, tables = self._learner.sparse, self._job.tables
        if not (tables.embedding.restart_epochs or tables.linear.restart_epochs):
            return
        restart_rows(
            sparse.tables,
            embeddings=sparse.embeddings,
            settings=tables,
            start=self._run.checkpoints.start_directory(self._state.position.warm),
            buckets=self._run.checkpoints.buckets,
            threads=sparse.threads,
        )

    def _evict(self, *, end_of_epoch: bool) -> None:
        """Evict rows every `tables.evict_every` steps, or at the end of each epoch if that is 0."""
        every = self._job.tables.evict_every
        due = end_of_epoch if every == 0 else not end_of_epoch and self._learner.step % every == 0
        if due and self._learner.evicts:
            removed = self._learner.evict()
            if removed:
                self._run.watcher.say(f"evicted {removed:,} rows")

    def _checkpoint_due(self, step: int) -> bool:
        every = self._job.checkpoint.every_steps
        last = last_step(self._job.train, first_step=self._state.position.first_step)
        return (every > 0 and step % every == 0) or (step == last and last > 0)

    @property
    def _stopped_early(self) -> bool:
        return stopped_early(self._job.train, stale_epochs=self._state.position.stale_epochs)

    @property
    def _enough(self) -> bool:
        """Whether train.max_steps are done."""
        return enough(self._job.train, step=self._learner.step, first_step=self._state.position.first_step)
