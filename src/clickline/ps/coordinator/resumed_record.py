"""Where a run of parameter servers stands that goes on from a checkpoint, whichever strategy wrote it."""

from __future__ import annotations

from clickline.config import Job
from clickline.ps.coordinator.record import Standing
from clickline.train.checkpoints.checkpoint_files import Checkpoint, dense_tensors
from clickline.train.checkpoints.resume import refuse_position
from clickline.train.monitoring.piece_progress import progress_in


def standing_in(checkpoint: Checkpoint, *, job: Job) -> Standing:
    """Raises CheckpointError for one in the middle of an epoch of one process, which nobody else can go on with."""
    facts = checkpoint.manifest["standing"]
    standing = Standing.from_dict(facts)
    if "generation" in facts:
        return standing
    refuse_position(checkpoint, way="parameter servers")
    standing.step, standing.rows_before = checkpoint.step, standing.rows
    standing.tick = int(dense_tensors(checkpoint)["tick"])
    progress = progress_in(checkpoint)
    if progress is not None:
        standing.cut_for, standing.cut_bytes = progress.trainers, progress.piece_bytes
        standing.book = progress.to_book(attempts=job.cluster.piece_attempts)
        # The book counts rows of pieces that were begun; all others count as those of epochs before.
        standing.rows_before = standing.rows - sum(progress.begun.values())
    return standing
