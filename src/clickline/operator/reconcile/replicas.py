"""Numbers of pods that have changed while the job runs: what joins, what leaves, and when everything starts over."""

from __future__ import annotations

from datetime import datetime

from clickline.operator.job.job_status import JobStatus
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.reconcile.phases import with_condition
from clickline.operator.reconcile.plan import JobEvent


def note_replicas(job: PaddleJob, status: JobStatus, events: list[JobEvent], *, now: datetime) -> JobStatus:
    """The status with the number of pods that is wanted now; another number is another revision."""
    wanted, before = job.spec.replicas(), status.replicas
    status = _note_limits(job, status, now=now)
    if before is None:
        return status.model_copy(update={"replicas": wanted, "elastic": "NONE"})
    if before == wanted:
        return status
    changes = ", ".join(
        f"{role} from {before.get(role, 0)} to {wanted.get(role, 0)}"
        for role in sorted({*before, *wanted})
        if before.get(role) != wanted.get(role)
    )
    everything = _starts_over(job, before, wanted)
    reason = "; all pods start over, from the last checkpoint if the job has one" if everything else ""
    # The policy changes spec.replicas like anybody else: that it was the policy shows in what it last decided.
    decided = status.autoscaling
    by_policy = decided is not None and decided.desired_replicas == wanted.get("worker") != before.get("worker")
    why = f" by the autoscaling policy: {decided.message}" if decided is not None and by_policy else ""
    events.append(JobEvent("Normal", "Scaled", f"{changes}{why}{reason}"))
    revision = status.revision + 1
    update: dict[str, object] = {"replicas": wanted, "revision": revision, "elastic": "DOING"}
    if everything:
        update |= {"restart_revision": revision, "endpoints": {}}
    if status.phase in ("Starting", "Running", "Restarting"):
        update["phase"] = "Scaling"
    status = status.model_copy(update=update)
    if everything and before.get("ps") != wanted.get("ps"):
        message = f"{changes}: rows are distributed over another number of servers, from the last checkpoint"
        status = with_condition(
            status, "Resharded", True, reason="Scaled", message=message, generation=job.generation, now=now
        )
    return status


def _starts_over(job: PaddleJob, before: dict[str, int], wanted: dict[str, int]) -> bool:
    """Whether nobody can go on: rows are distributed over servers, and ranks know how many they are."""
    if job.spec.mode == "PS" or "ps" in before:
        return before.get("ps") != wanted.get("ps")
    return not job.elastic_collective


def _note_limits(job: PaddleJob, status: JobStatus, *, now: datetime) -> JobStatus:
    limited = [
        f"{name}.replicas is {role.replicas}, outside of requests ({role.requests}) to limits ({role.limits}), "
        f"so there are {role.pods()}"
        for name, role in job.spec.roles().items()
        if role.pods() != role.replicas
    ]
    if not limited and status.condition("ReplicasLimited") is None:
        return status
    return with_condition(
        status,
        "ReplicasLimited",
        bool(limited),
        reason="OutsideOfRange" if limited else "WithinRange",
        message="; ".join(limited) or "replicas are within requests and limits",
        generation=job.generation,
        now=now,
    )
