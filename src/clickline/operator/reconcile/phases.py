"""Phase, counts, conditions and the sentence of a job's status."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from clickline.operator.job.job_status import Condition, JobStatus, Phase, PodReference, RoleStatus
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.observed_pod import ObservedPod
from clickline.operator.reconcile.plan import timestamp

START_BLOCKED = "StartBlocked"
"""Condition: a pod is kept from starting, and by what."""


def with_counts(job: PaddleJob, status: JobStatus, pods: Sequence[ObservedPod]) -> JobStatus:
    """The status with the counts of the pods that are of the job's present revision."""
    roles: dict[str, object] = {"ps": None, "worker": None, "heter": None}
    for role in job.spec.roles():
        mine = sorted((pod for pod in pods if pod.role == role), key=lambda pod: pod.index)
        counts = {
            state: sum(pod.state == state for pod in mine) for state in RoleStatus.model_fields if state != "refs"
        }
        refs = [PodReference(name=pod.name, uid=pod.uid) for pod in mine]
        roles[role] = RoleStatus.model_validate({**counts, "refs": refs})
    return status.model_copy(update=roles)


def phase_of(job: PaddleJob, status: JobStatus) -> Phase:
    """The phase that the counts come to. A job that restarts or scales does so until all of its pods run."""
    wanted = job.spec.replicas()
    counts = {role: status.role(role) for role in wanted}
    ends = [role for role in wanted if role != "ps"] or list(wanted)
    if sum(wanted[role] for role in ends) and all(counts[role].succeeded >= wanted[role] for role in ends):
        servers = "ps" not in wanted or counts["ps"].succeeded >= wanted["ps"]
        return "Completed" if servers else "Completing"
    up = {role: counts[role].running + counts[role].succeeded for role in wanted}
    if sum(wanted.values()) and all(up[role] >= wanted[role] for role in wanted):
        return "Running"
    # Also while the counts alone would say Starting: who looks at the job is to see why it starts.
    if status.phase in ("Restarting", "Scaling"):
        return status.phase
    missing = any(len(counts[role].refs) < wanted[role] for role in wanted)
    if status.phase == "Running":
        # A pod that is not ready for a while, as a server that loads a checkpoint, does not make the job start again.
        begun = all(up[role] + counts[role].starting >= wanted[role] for role in wanted)
        if missing or begun:
            return "Restarting" if missing else "Running"
    return "Starting" if any(one.starting or one.running for one in counts.values()) else "Pending"


def sentence(job: PaddleJob, status: JobStatus) -> str:
    """Where the job stands, in words that stay the same as long as it stands there."""
    wanted = job.spec.replicas()
    counts = ", ".join(
        f"{status.role(role).running + status.role(role).succeeded} of {count} {role}" for role, count in wanted.items()
    )
    if not sum(wanted.values()):
        return "no role has any replicas"
    if status.phase == "Completing":
        return "all workers have succeeded; servers are still running"
    if status.phase == "Restarting" and status.restarts and status.failures:
        last = status.failures[-1]
        limit = job.spec.backoff_limit
        counts = f"restart {status.restarts} of at most {limit}, after {last.pod} failed ({last.reason}); {counts}"
    blocked = status.condition(START_BLOCKED)
    return f"{counts} run" + (f"; {blocked.message}" if blocked and blocked.status == "True" else "")


def with_condition(
    status: JobStatus,
    kind: str,
    holds: bool,
    *,
    reason: str,
    message: str,
    generation: int,
    now: datetime,
) -> JobStatus:
    """The status with a condition, whose time changes only if its value does."""
    before = status.condition(kind)
    value: Literal["True", "False"] = "True" if holds else "False"
    time = before.last_transition_time if before and before.status == value else timestamp(now)
    condition = Condition(
        type=kind,
        status=value,
        reason=reason,
        message=message,
        last_transition_time=time,
        observed_generation=generation,
    )
    others = [one for one in status.conditions if one.type != kind]
    return status.model_copy(update={"conditions": [*others, condition]})


def ended(status: JobStatus, job: PaddleJob, *, failed: bool, reason: str, message: str, now: datetime) -> JobStatus:
    """The status of a job that has completed or failed."""
    status = status.model_copy(
        update={
            "phase": "Failed" if failed else "Completed",
            "completion_time": timestamp(now),
            "message": message,
        }
    )
    if not failed and status.trainer_status is not None:  # of which the last report came before the end
        done = {"progress_percentage": 100, "estimated_remaining_seconds": 0}
        status = status.model_copy(update={"trainer_status": status.trainer_status.model_copy(update=done)})
    kinds = {"Running": False, "Failed" if failed else "Complete": True}
    if status.condition("Completing"):
        kinds["Completing"] = False
    for kind, holds in kinds.items():
        status = with_condition(
            status,
            kind,
            holds,
            reason=reason,
            message=message,
            generation=job.generation,
            now=now,
        )
    return status
