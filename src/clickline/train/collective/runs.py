"""A run of several ranks: the loop of train/loop.py, with data, figures and checkpoints that are all ranks' together.

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

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, DataError
from clickline.ps.tables import owned_buckets
from clickline.train import checkpoints
from clickline.train.collective.exchanging import Exchange
from clickline.train.collective.groups import Group
from clickline.train.collective.learning import RankLearner
from clickline.train.collective.measuring import collected, gathered, without_rows
from clickline.train.collective.reading import Progress, Share
from clickline.train.evaluating import Predictions, flat
from clickline.train.journal import Interval, Journal
from clickline.train.loop import EVALUATION_BATCH, Run
from clickline.train.watching import Watcher


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
    ) -> None:
        super().__init__(job=job, schema=schema, learner=learner, directory=directory, watcher=watcher, check=check)
        self.group = group
        self._talk = Exchange(group, doing="agreeing on what comes next")
        self._progress: Progress | None = None

    def resume(self, checkpoint: checkpoints.Checkpoint) -> None:
        super().resume(checkpoint)
        facts = checkpoint.manifest.get("progress")
        self._progress = None if facts is None else Progress.from_dict(facts)
        self.learner.check_alike()

    def save(self) -> checkpoints.Checkpoint:
        step, talk = self.learner.step, self._talk
        aside = checkpoints.begin(self.checkpoint_directory, step=step) if self.group.first else Path()
        try:
            aside = Path(talk.announce(str(aside)))
            if not aside.is_dir():
                raise CheckpointError(
                    f"{aside}: not there for rank {self.group.rank}; all ranks need the same `output` directory"
                )
            tables = self.learner.sparse.tables
            files = checkpoints.write_tables(aside, tables, part=self.group.rank, parts=self.group.size)
            written = {name: facts for part in talk.collect_facts(files) for name, facts in part.items()}
            interval, progress = collected(self.interval, talk), self._joined_progress()
            states = talk.collect({"state": torch.get_rng_state()})
            if interval is not None:
                random = {f"random.torch.{rank}": one["state"] for rank, one in enumerate(states) if rank}
                checkpoints.finish(
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
        self._saved_at = step
        talk.announce(None)  # nobody goes on, or looks for the checkpoint, before it is there
        return checkpoints.read(self.checkpoint_directory / f"step-{step:010d}")

    def load(self, checkpoint: checkpoints.Checkpoint) -> dict[str, torch.Tensor]:
        """This rank's buckets, however many ranks wrote them, and all dense state."""
        if self.group.first:
            checkpoints.verify(checkpoint)
        self._talk.announce(None)
        buckets = owned_buckets(part=self.group.rank, parts=self.group.size)
        checkpoints.load_tables(checkpoint, self.learner.sparse.tables, buckets=buckets)
        tensors = checkpoints.dense_tensors(checkpoint)
        return tensors if self.group.first else {**tensors, **without_rows(tensors)}

    _load = load

    def _check_position(self, checkpoint: checkpoints.Checkpoint) -> None:
        if checkpoint.manifest["standing"]["position"] is not None:
            raise CheckpointError(
                f"{checkpoint.path} stands in the middle of an epoch of one process, which ranks cannot go on with; "
                "finish the epoch with --set strategy=single, or take a checkpoint from between epochs"
            )

    @property
    def _midway(self) -> bool:
        return self._progress is not None

    def _joined_progress(self) -> dict[str, Any] | None:
        """How far all ranks together are, on rank 0."""
        mine = self._progress
        said = self._talk.collect_facts(None if mine is None else mine.to_dict())
        if mine is None or not said:
            return None
        whole = replace(mine, finished=set(mine.finished), begun=dict(mine.begun))
        for facts in said:
            whole.join(Progress.from_dict(facts))
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
        if fresh and self.standing.epoch == 0 and share.pieces < self.group.size:
            self.watcher.say(
                f"the data is in {share.pieces} piece(s) for {self.group.size} ranks: some have nothing to read; "
                "compressed files cannot be cut, so write more of them"
            )
        steps = 0
        with closing(share.turns(epoch=self.standing.epoch)) as turns:
            for batch, turn, learned in self.learner.learn(turns, barrier=self._checkpoint_due):
                steps += 1
                # Not before the first step, for reading ahead may have begun by then.
                self._progress = share.progress
                share.progress.heed(turn, own=share.own)
                self.standing = replace(self.standing, rows=self.standing.rows + turn.rows)
                self.interval.add(batch, learned)
                self.interval.timed_rows += turn.rows - len(batch)
                self._after_step(learned, journal, share=lambda: self._share_of(share))
                if self._enough():
                    return
        if fresh and not steps:
            raise DataError(f"There are no rows in the data: {', '.join(self.job.data.train[:3])}.")
        self._progress = None

    def _share_of(self, share: Share) -> float:
        rows = self.standing.epoch_rows
        if rows:
            return min((self.standing.rows - self.standing.epoch * rows) / rows, 1.0)
        return share.share

    def _log(self, journal: Journal) -> None:
        whole = collected(self.interval, self._talk)
        if whole is not None:
            self._write_line(whole.figures(), journal)
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
            raise DataError(f"There are no rows in the data: {', '.join(paths[:3])}.")
        whole = gathered(predictions, self._talk)
        figures: dict[str, float] = self._talk.announce(
            None if whole is None else flat(whole.measure(self.schema.labels))
        )
        return figures
