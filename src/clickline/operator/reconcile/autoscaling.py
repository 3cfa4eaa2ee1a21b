"""How many workers a job should have, by its policy: pure decisions from what the run says of itself.

What was decided is in the status, which an operator that is started again finds. What was only measured is kept in
memory: after a restart it is measured anew, and a decision comes later at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from clickline.operator.job.job_spec import Autoscaling
from clickline.operator.job.job_status import AutoscalingStatus, JobStatus
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.reconcile.phases import with_condition
from clickline.operator.reconcile.plan import seconds_since, timestamp
from clickline.operator.reconcile.run_report import RunReport

CONDITION = "AutoscalingActive"


@dataclass(slots=True)
class Measured:
    """What was seen of a run since its number of workers last changed."""

    below_since: datetime | None = None
    """Since when fewer workers would do."""
    since: datetime | None = None
    rows: int = 0
    """When all workers were first seen to run, and the rows that were trained until then."""

    def restart(self) -> None:
        self.below_since, self.since, self.rows = None, None, 0

    def rows_per_second(self, rows: int, *, now: datetime, seconds: float) -> float | None:
        """Over all of the time so far; None before so many seconds have passed."""
        if self.since is None or rows < self.rows:  # the run has gone back to a checkpoint
            self.since, self.rows = now, rows
        passed = (now - self.since).total_seconds()
        return (rows - self.rows) / passed if passed > 0 and passed >= seconds else None


def bounds(job: PaddleJob) -> tuple[int, int]:
    """The least and greatest number of workers."""
    worker = job.spec.worker
    assert worker is not None  # noqa: S101
    least = 1 if worker.requests is None else worker.requests
    return least, max(least, worker.pods() if worker.limits is None else worker.limits)


def why_not(job: PaddleJob) -> tuple[str, str] | None:
    """Why a policy has no effect, in a word and in a sentence; None if it has."""
    if job.spec.ps is None:
        return "NoServers", "workers without servers would all start over with each change of their number"
    if job.spec.worker is not None and job.spec.worker.limits is None:
        return "NoLimits", "worker.limits is not set, so there is no greatest number of workers"
    return None


def note_autoscaling(job: PaddleJob, status: JobStatus, *, now: datetime) -> JobStatus:
    """The status with the condition that says what the policy does."""
    policy = None if job.spec.worker is None else job.spec.worker.autoscaling
    if policy is None:
        return status.model_copy(update={"autoscaling": None}) if status.autoscaling else status
    if missing := why_not(job):
        reason, message = missing
    else:
        least, most = bounds(job)
        reason, message = "Active", f"{least} to {most} workers, by {policy.metric}"
        if status.autoscaling is not None and status.autoscaling.message:
            message = f"{message}: {status.autoscaling.message}"
    return with_condition(
        status, CONDITION, missing is None, reason=reason, message=message, generation=job.generation, now=now
    )


@dataclass(frozen=True, slots=True)
class _Moment:
    """A job under its policy, as it is now."""

    job: PaddleJob
    policy: Autoscaling
    report: RunReport
    measured: Measured
    state: AutoscalingStatus
    current: int
    """Workers that the job should have by now."""
    now: datetime


def decide(job: PaddleJob, report: RunReport, measured: Measured, *, now: datetime) -> AutoscalingStatus:
    """What the policy comes to now; the same as before if nothing is to be changed."""
    worker = job.spec.worker
    assert worker is not None and worker.autoscaling is not None  # noqa: S101
    policy, current = worker.autoscaling, worker.pods()
    state = job.status.autoscaling or AutoscalingStatus(desired_replicas=current, observed_generation=job.generation)
    if state.observed_generation != job.generation:  # other limits, or another policy: what was tried counts no more
        state = AutoscalingStatus(desired_replicas=current, observed_generation=job.generation)
        measured.restart()
    moment = _Moment(job, policy, report, measured, state, current, now)
    return _by_backlog(moment) if policy.metric == "backlog" else _by_throughput(moment)


def _by_backlog(moment: _Moment) -> AutoscalingStatus:
    policy, report, measured = moment.policy, moment.report, moment.measured
    state, current, now = moment.state, moment.current, moment.now
    if report.pieces is None or report.phase != "training":
        return state
    least, most = bounds(moment.job)
    pieces = report.pieces
    whole = pieces.done + pieces.active + pieces.left
    # Epochs to come are work as well: workers must not go at the end of one and come again with the next.
    backlog = pieces.left + max(0, report.epochs - report.epoch) * whole
    # Who is at work on a piece stays: what it has done of it would have to be begun elsewhere.
    busy = min(pieces.busy_workers, current)
    wanted = min(max(math.ceil(backlog / policy.target), busy, least), most)
    sentence = f"{backlog} pieces wait, {policy.target} for each worker are wanted"
    if wanted >= current:
        measured.below_since = None
    if wanted > current and _rested(state, policy, now):
        return _scaled(state, wanted, sentence, now)
    if wanted < current:
        measured.below_since = measured.below_since or now
        if (now - measured.below_since).total_seconds() >= policy.stabilization_seconds:
            measured.restart()
            return _scaled(state, wanted, sentence, now)
    return state


def _by_throughput(moment: _Moment) -> AutoscalingStatus:
    policy, report, measured = moment.policy, moment.report, moment.measured
    state, current, now = moment.state, moment.current, moment.now
    if state.settled:
        return state
    if report.phase != "training" or moment.job.status.phase != "Running":
        measured.restart()  # validation, or workers that are still starting, would count as slowness
        return state
    # Over the whole interval: the rate of a moment depends on where in the data the trainers are.
    rate = measured.rows_per_second(report.rows, now=now, seconds=policy.stabilization_seconds)
    if rate is None:
        return state
    measured.restart()
    most, before = bounds(moment.job)[1], state.baseline_replicas
    speed = f"{rate:,.0f} rows/s with {current} workers"
    # One more was tried. It stays only if it was worth it, and after one that was not no other is tried.
    if before is not None and before < current:
        gained = 100 * (rate / max(state.baseline_rows_per_second or 0, 1) - 1)
        speed += f", {gained:+.0f} % to {before}"
        if gained < policy.min_gain_percent:
            kept = _scaled(state, before, f"{speed}: less than {policy.min_gain_percent} %, so it is taken back", now)
            return kept.model_copy(update={"settled": True})
    noted = {"baseline_replicas": current, "baseline_rows_per_second": round(rate)}
    if current >= most:
        return state.model_copy(update={**noted, "settled": True, "message": f"{speed}; there may not be more"})
    return _scaled(state, current + 1, f"{speed}; one more is tried", now).model_copy(update=noted)


def _rested(state: AutoscalingStatus, policy: Autoscaling, now: datetime) -> bool:
    return not state.last_scale_time or seconds_since(state.last_scale_time, now) >= policy.stabilization_seconds


def _scaled(state: AutoscalingStatus, replicas: int, message: str, now: datetime) -> AutoscalingStatus:
    update = {"desired_replicas": replicas, "message": message, "last_scale_time": timestamp(now)}
    return state.model_copy(update=update)
