"""Checkpoints that all ranks write together: each its own rows, rank 0 the dense state and the manifest.

They are in the run's directory, on the host of rank 0. Only rank 0 reads manifests, and announces them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from clickline.collective.checkpoint_copies import CheckpointCopies
from clickline.collective.group import Group
from clickline.collective.rank_exchange import RankExchange
from clickline.collective.rank_figures import collected, without_rows
from clickline.collective.rank_learner import RankLearner
from clickline.config import Job
from clickline.data.schema import Schema
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_figures import CheckpointFigures
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.checkpoints.dense_tensors import dense_file, dense_tensors
from clickline.train.checkpoints.resume import refuse_position
from clickline.train.loop.run_checkpoints import RunCheckpoints
from clickline.train.loop.training_state import TrainingState
from clickline.train.monitoring.piece_progress import PieceProgress
from clickline.train.sparse_tables import owned_buckets


class RankCheckpoints(RunCheckpoints):
    """The checkpoints of a run of several ranks. All ranks call the same methods in the same order."""

    def __init__(
        self,
        *,
        job: Job,
        schema: Schema,
        learner: RankLearner,
        directory: Path,
        check: Callable[[], None],
        group: Group,
        exchange: RankExchange,
        copies: CheckpointCopies,
    ) -> None:
        super().__init__(job=job, schema=schema, learner=learner, directory=directory, check=check)
        self._group, self._exchange, self._copies = group, exchange, copies
        self.buckets = owned_buckets(part=group.rank, parts=group.size)

    def load(self, checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
        """This rank's buckets, however many ranks wrote them, and all dense state."""
        if self._group.first:
            checkpoint_files.verify(checkpoint)
        self._exchange.announce(None)  # nobody loads files that rank 0 has not verified
        with self._copies.readable(checkpoint) as here:
            checkpoint_files.load_tables(here, self.learner.sparse.tables, buckets=self.buckets)
            tensors = dense_tensors(here)
        return tensors if self._group.first else {**tensors, **without_rows(tensors)}

    def read(self, step: int) -> Checkpoint:
        found = super().read(step) if self._group.first else None
        path, manifest = self._exchange.announce(None if found is None else [str(found.path), found.manifest])
        return Checkpoint(Path(path), manifest)

    def start_directory(self, given: str | None) -> str | None:
        return self._copies.start_directory(given)

    def record(self, checkpoint: Checkpoint, kind: str, measured: CheckpointFigures) -> None:
        if self._group.first:
            super().record(checkpoint, kind, measured)

    def check_resumable(self, checkpoint: Checkpoint) -> None:
        refuse_position(checkpoint, way="ranks")

    def _write(self, state: TrainingState) -> Checkpoint:
        step, exchange = self.learner.step, self._exchange
        staging = checkpoint_files.begin(self.directory, step=step) if self._group.first else Path()
        try:
            staging = Path(exchange.announce(str(staging)))
            files = self._copies.write_tables(staging, self.learner.sparse.tables)
            interval, progress = collected(state.interval, exchange), self._all_progress(state.pieces)
            random_states = exchange.collect({"state": torch.get_rng_state()})
            if interval is not None:  # rank 0
                # That of rank 0 is in the learner's tensors, where one process has its own.
                random = {f"random.torch.{rank}": one["state"] for rank, one in enumerate(random_states) if rank}
                checkpoint_files.finish(
                    staging,
                    facts={**self.manifest(state), "progress": None if progress is None else progress.to_dict()},
                    dense=dense_file({**self.learner.tensors(), **random, **interval.tensors()}),
                    tables=files,
                    check=self.check,
                )
        except BaseException:
            if self._group.first:
                shutil.rmtree(staging, ignore_errors=True)
            raise
        if self._group.first:
            self.prune(state)
        exchange.announce(None)  # no rank continues, or looks for the checkpoint, before it is visible
        return self.read(step)

    def _all_progress(self, own: PieceProgress | None) -> PieceProgress | None:
        """The progress of all ranks together, on rank 0; None elsewhere, and between epochs."""
        collected_progress = self._exchange.collect_json(None if own is None else own.to_dict())
        if own is None or not collected_progress:
            return None
        whole = replace(own, finished=set(own.finished), begun=dict(own.begun))
        for progress in collected_progress:
            whole.join(PieceProgress.from_dict(progress))
        return whole
