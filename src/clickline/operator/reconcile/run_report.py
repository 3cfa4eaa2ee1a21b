"""What the status of a run, as its processes tell it, comes to in the status of the job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

import msgspec

from clickline.files.typed_json import decode_json
from clickline.operator.job.job_status import JobStatus, TrainerMetric, TrainerStatus
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.observed_pod import ObservedPod
from clickline.operator.reconcile.plan import seconds_since, timestamp

_MOST = 2**53
_MOST_FIGURES, _LONGEST_NAME = 20, 63
_QUIET_SECONDS = 60.0
"""After which rows alone are worth a request."""
_UNNOTICED = ("loss", "rows_per_second")
"""Figures that are never the same twice."""


class Pieces(msgspec.Struct, frozen=True):
    """Pieces of this epoch's data, of which trainers get leases."""

    done: int = 0
    active: int = 0
    left: int = 0
    holders: tuple[str, ...] = ()
    """Trainers that have one, such as trainer.0."""

    @property
    def busy_workers(self) -> int:
        """So many must stay, for nobody to go who has a piece: those with the highest numbers go first."""
        ranks = (name.removeprefix("trainer.") for name in self.holders)
        return max((int(rank) + 1 for rank in ranks if rank.isascii() and rank.isdigit()), default=self.active)


class RunReport(msgspec.Struct, frozen=True):
    """`/status` of a run: what the operator uses of it. It comes from a pod, so nothing in it is trusted to be sane."""

    phase: str
    epoch: int
    epochs: int
    step: int
    rows: int
    rows_per_second: float = 0.0
    loss: float | None = None
    auc: float | None = None
    rmse: float | None = None
    test: dict[str, float] = {}
    progress: float | None = None
    seconds_left: float | None = None
    pieces: Pieces | None = None


def trainer_status(report: RunReport, *, now: datetime) -> TrainerStatus:
    """The progress of a run as the job's status has it."""
    figures: dict[str, float | None] = {
        "loss": report.loss,
        "auc": report.auc,
        "rmse": report.rmse,
        "rows_per_second": report.rows_per_second,
        **{f"test_{name}": value for name, value in report.test.items()},
    }
    metrics = [
        TrainerMetric(name=name[:_LONGEST_NAME], value=f"{value:.6g}")
        for name, value in figures.items()
        if value is not None and math.isfinite(value)
    ]
    return TrainerStatus(
        phase=report.phase[:_LONGEST_NAME],
        progress_percentage=None if report.progress is None else _count(100 * report.progress, most=100),
        estimated_remaining_seconds=None if report.seconds_left is None else _count(report.seconds_left),
        epoch=_count(report.epoch),
        epochs=_count(report.epochs),
        step=_count(report.step),
        rows=_count(report.rows),
        metrics=metrics[:_MOST_FIGURES],
        last_updated_time=timestamp(now),
    )


def note_termination_message(
    job: PaddleJob, status: JobStatus, pods: Sequence[ObservedPod], *, now: datetime
) -> JobStatus:
    """The status with what the run came to, if the pod that knows it has ended and left it."""
    pod = next((pod for pod in pods if pod.name == job.status_pod and pod.termination_message), None)
    if pod is None:
        return status
    try:
        final = trainer_status(decode_json(pod.termination_message.encode(), RunReport), now=now)
    except msgspec.MsgspecError:  # the message of another program
        return status
    # Not at each look anew, with the time of that look.
    noted = status.trainer_status is not None and status.trainer_status.phase == final.phase
    return status if noted else status.model_copy(update={"trainer_status": final})


def is_noticeable(before: TrainerStatus | None, after: TrainerStatus, *, now: datetime) -> bool:
    """Whether somebody who looks at the job would care: a request to the API server is made for this only."""
    if before is None or _noticed(before) != _noticed(after):
        return True
    return before.rows != after.rows and seconds_since(before.last_updated_time, now) >= _QUIET_SECONDS


def _noticed(status: TrainerStatus) -> tuple[object, ...]:
    figures = [metric for metric in status.metrics if metric.name not in _UNNOTICED]
    return status.phase, status.progress_percentage, status.epoch, status.epochs, figures


def _count(value: float, *, most: int = _MOST) -> int:
    return int(min(max(value, 0), most)) if math.isfinite(value) else 0
