"""Jobs that are at rest: finished, suspended, or about to be deleted."""

from __future__ import annotations

from datetime import datetime

from clickline.operator.job.job_status import JobStatus
from clickline.operator.job.paddle_job import PADDLE_FINALIZER, PaddleJob
from clickline.operator.objects.gang import POD_GROUPS
from clickline.operator.reconcile.blocked_pods import note_blocked_pods
from clickline.operator.reconcile.phases import with_condition, with_counts
from clickline.operator.reconcile.plan import Deletion, JobEvent, Observed, Plan, seconds_since


def deleting(job: PaddleJob) -> Plan:
    """A job that is being deleted: what it owns is collected with it, and jobs of paddle-operator are let go."""
    status = job.status.model_copy(update={"phase": "Terminating", "message": "the job is being deleted"})
    return Plan(status, release_job=PADDLE_FINALIZER in job.finalizers)


def suspended(observed: Observed, status: JobStatus, *, now: datetime) -> Plan:
    """A job that is to stop: its pods are deleted, its token and endpoints stay."""
    job = observed.job
    events: list[JobEvent] = []
    if status.phase != "Suspended":
        events.append(JobEvent("Normal", "Suspended", "the job is suspended"))
    message = "the job is suspended; set spec.suspend to false to resume it"
    status = with_counts(job, status, []).model_copy(
        update={"phase": "Suspended", "start_time": None, "message": message}
    )
    if not observed.pods:
        status = status.model_copy(update={"port_blocks": {}})
    status = note_blocked_pods(job, status, [], events, now=now)
    for kind, holds in (("Running", False), ("Suspended", True)):
        status = with_condition(
            status, kind, holds, reason="Suspended", message=message, generation=job.generation, now=now
        )
    return Plan(status, deletions=[*_all_pods(observed), *_group(observed)], events=events)


def after_end(observed: Observed, *, now: datetime) -> Plan:
    """A job that has completed or failed: pods go or stay as cleanPodPolicy says, and the job itself after its time."""
    job = observed.job
    status = job.status
    completed = status.phase == "Completed"
    plan = Plan(status, deletions=_group(observed))
    if job.spec.cleans[0 if completed else 1]:
        plan.deletions += _all_pods(observed)
    elif completed or _reason(status) == "DeadlineExceeded":
        # A server whose workers are done has nothing left to do, and a deadline is there to end what is still active.
        plan.deletions += [
            Deletion("pods", pod.name, pod.uid) for pod in observed.pods if not pod.ended and not pod.terminating
        ]
    if not observed.pods and status.port_blocks:
        plan.status = status.model_copy(update={"port_blocks": {}})
    if (keep := job.spec.ttl_seconds_after_finished) is not None:
        left = keep - seconds_since(status.completion_time, now)
        if left <= 0:
            plan.delete_job = True
        else:
            plan.look_again(left)
    return plan


def _reason(status: JobStatus) -> str:
    condition = status.condition("Failed")
    return condition.reason if condition else ""


def _all_pods(observed: Observed) -> list[Deletion]:
    going = [pod for pod in observed.pods if not pod.terminating]
    # Services first: they are not watched, and it is the pods that tell which there are.
    services = [Deletion("services", pod.name) for pod in going] if observed.job.service_mode else []
    return services + [Deletion("pods", pod.name, pod.uid) for pod in going]


def _group(observed: Observed) -> list[Deletion]:
    return [Deletion(POD_GROUPS, observed.job.name)] if observed.group is not None else []
