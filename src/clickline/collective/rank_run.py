"""A run of several ranks: the loop of train/run.py, with data, figures and checkpoints that are all ranks' together.

Every rank goes the same way through it. What decides the way (figures, steps, the checkpoint to go on from) is the
same on all, or said by rank 0, which alone writes the journal and the manifest.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from clickline.collective.group import Group
from clickline.collective.rank_exchange import RankExchange
from clickline.collective.rank_figures import collected, gathered, without_rows
from clickline.collective.rank_learner import RankLearner
from clickline.config import Job
from clickline.data.leasing.pieces import shortage
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, DataError
from clickline.progress import Watcher
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_figures import CheckpointFigures
from clickline.train.checkpoints.resume import refuse_position
from clickline.train.evaluation.evaluation import Predictions, flat
from clickline.train.interrupts import Interrupts
from clickline.train.monitoring.journal import Interval, Journal
from clickline.train.monitoring.piece_progress import PieceProgress
from clickline.train.monitoring.run_status import own_process
from clickline.train.piece_share import Share
from clickline.train.run import EVALUATION_BATCH, Run
from clickline.train.sparse_tables import owned_buckets


class RankRun(Run):
    """One rank's part in a run."""

    learner: RankLearner

    def __init__(
        self,
        *,
        job: Job,
        schema: Schema,
        learner: RankLearner,
        directory: Path,
        watcher: Watcher,
        group: Group,
        check: Callable[[], None],
        interrupts: Interrupts,
    ) -> None:
        super().__init__(
            job=job,
            schema=schema,
            learner=learner,
            directory=directory,
            watcher=watcher,
            check=check,
            interrupts=interrupts,
        )
        learner.interrupts = interrupts
        self.group = group
        self._buckets = owned_buckets(part=group.rank, parts=group.size)
        self._talk = RankExchange(group, doing="agreeing on what comes next")
        self._rows = 0
        """Rows that this rank itself has trained."""
        self._others: list[dict[str, Any]] = []
        self.metrics_address = ""
        """Where this rank answers Prometheus, if it does and is not the first, which answers for the run."""

    def introduce(self) -> None:
        """Tell the first rank of this one, for the status."""
        self._others = self._talk.collect_facts(self.members()[0])[1:]

    def resume(self, checkpoint: checkpoint_files.Checkpoint) -> None:
        super().resume(checkpoint)
        self.learner.check_alike()

    def members(self) -> list[dict[str, Any]]:
        """This rank's own, and the others' as they were when lines of metrics were last put together."""
        rank, tables = self.group.rank, {name: len(table) for name, table in self.learner.sparse.tables.items()}
        mine = {**own_process(rank), "rows": self._rows, "steps": self.learner.step, "tables": tables}
        if self.metrics_address:
            mine["metrics"] = self.metrics_address
        return [mine, *self._others]

    def _save(self) -> checkpoint_files.Checkpoint:
        step, talk = self.learner.step, self._talk
        aside = checkpoint_files.begin(self.checkpoint_directory, step=step) if self.group.first else Path()
        try:
            aside = Path(talk.announce(str(aside)))
            if not aside.is_dir():
                raise CheckpointError(
                    f"{aside}: not there for rank {self.group.rank}; all ranks need the same `output` directory"
                )
            tables = self.learner.sparse.tables
            files = checkpoint_files.write_tables(aside, tables, part=self.group.rank, parts=self.group.size)
            written = {name: facts for part in talk.collect_facts(files) for name, facts in part.items()}
            interval, progress = collected(self.interval, talk), self._joined_progress()
            states = talk.collect({"state": torch.get_rng_state()})
            if interval is not None:
                random = {f"random.torch.{rank}": one["state"] for rank, one in enumerate(states) if rank}
                checkpoint_files.finish(
                    aside,
                    facts={**self._facts(), "progress": progress},
                    tensors={**self.learner.tensors(), **random, **interval.tensors()},
                    tables=written,
                    check=self.check,
                )
        except BaseException:
            if self.group.first:
                shutil.rmtree(aside, ignore_errors=True)
            raise
        if self.group.first:
            self._prune()
        talk.announce(None)  # nobody goes on, or looks for the checkpoint, before it is there
        return checkpoint_files.read(self.checkpoint_directory / f"step-{step:010d}")

    def load(self, checkpoint: checkpoint_files.Checkpoint) -> dict[str, torch.Tensor]:
        """This rank's buckets, however many ranks wrote them, and all dense state."""
        if self.group.first:
            checkpoint_files.verify(checkpoint)
        self._talk.announce(None)
        checkpoint_files.load_tables(checkpoint, self.learner.sparse.tables, buckets=self._buckets)
        tensors = checkpoint_files.dense_tensors(checkpoint)
        return tensors if self.group.first else {**tensors, **without_rows(tensors)}

    _load = load

    def _check_position(self, checkpoint: checkpoint_files.Checkpoint) -> None:
        refuse_position(checkpoint, way="ranks")

    def _interrupt_due(self) -> bool:
        return self.learner.interrupted

    def _joined_progress(self) -> dict[str, Any] | None:
        """How far all ranks together are, on rank 0."""
        mine = self._progress
        said = self._talk.collect_facts(None if mine is None else mine.to_dict())
        if mine is None or not said:
            return None
        whole = replace(mine, finished=set(mine.finished), begun=dict(mine.begun))
        for facts in said:
            whole.join(PieceProgress.from_dict(facts))
        return whole.to_dict()

    def _pass(self, journal: Journal) -> None:
        fresh = self._progress is None
        share = Share(
            job=self.job,
            schema=self.schema,
            paths=self.job.data.train,
            batch_size=self.job.train.batch_size,
            shuffle=True,
            exchange=self._talk,
            progress=self._progress,
        )
        idle = shortage(share.pieces, trainers=self.group.size)
        if fresh and self.standing.epoch == 0 and idle is not None:
            self.watcher.say(idle)
        steps = 0
        with closing(share.turns(epoch=self.standing.epoch)) as turns:
            for batch, turn, learned in self.learner.learn(turns, barrier=self._barrier):
                steps += 1
                # Not before the first step, for reading ahead may have begun by then.
                self._progress = share.progress
                share.progress.heed(turn, own=share.own)
                self.standing = replace(self.standing, rows=self.standing.rows + turn.rows)
                self._rows += len(batch)
                self.interval.add(batch, learned)
                self.interval.timed_rows += turn.rows - len(batch)
                self._after_step(learned, journal, share=lambda: self._share_of(share))
                if self._enough():
                    return
        if fresh and not steps:
            raise DataError(f"there are no rows in the data: {', '.join(self.job.data.train[:3])}")
        self._progress = None

    def _share_of(self, share: Share) -> float:
        rows = self.standing.epoch_rows
        if rows:
            return min((self.standing.rows - self.standing.epoch * rows) / rows, 1.0)
        return share.share

    def _record(self, checkpoint: checkpoint_files.Checkpoint, kind: str, measured: CheckpointFigures) -> None:
        if self.group.first:
            super()._record(checkpoint, kind, measured)

    def _log(self, journal: Journal) -> None:
        whole = collected(self.interval, self._talk)
        if whole is not None:
            self._write_line(whole.figures(self.job.metrics, labels=len(self.schema.labels)), journal)
        self.introduce()
        self.interval = Interval()

    def _measured(self, paths: list[str], *, progress: Callable[[int], None]) -> dict[str, float]:
        share = Share(
            job=self.job,
            schema=self.schema,
            paths=paths,
            batch_size=EVALUATION_BATCH,
            shuffle=False,
            exchange=self._talk,
        )
        predictions, rows = Predictions(), 0
        with closing(share.turns(epoch=0)) as turns:
            for batch, turn in turns:
                logits = self.learner.predict(batch)
                if len(batch):
                    predictions.add(batch, logits)
                rows += turn.rows
                progress(rows)
        if not rows:
            raise DataError(f"there are no rows in the data: {', '.join(paths[:3])}")
        whole = gathered(predictions, self._talk)
        figures: dict[str, float] = self._talk.announce(
            None if whole is None else flat(self.metrics.measure_all(self.schema.labels, whole.columns()))
        )
        return figures
