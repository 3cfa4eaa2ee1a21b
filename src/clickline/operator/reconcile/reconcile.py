"""One look at a job: what it asks for, what is there, and so what is to be done now.

A pure function. Decisions go into the status; what is deleted and made follows from the status and the pods alone, so
it comes out the same for an operator that has forgotten everything.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from clickline.errors import JobError
from clickline.operator.job.job_status import JobStatus
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.gang import mark_pod, pod_group, uses_volcano, waiting_sentence
from clickline.operator.objects.observed_pod import ObservedPod
from clickline.operator.objects.pod_manifests import pod_manifest, pod_service, token_secret
from clickline.operator.reconcile.autoscaling import note_autoscaling
from clickline.operator.reconcile.blocked_pods import note_blocked_pods
from clickline.operator.reconcile.endings import after_end, deleting, suspended
from clickline.operator.reconcile.endpoint_publication import publish_endpoints
from clickline.operator.reconcile.phases import ended, phase_of, sentence, with_condition, with_counts
from clickline.operator.reconcile.plan import (
    Deletion,
    JobEvent,
    Observed,
    Plan,
    ReconcileSettings,
    seconds_since,
    timestamp,
)
from clickline.operator.reconcile.pod_failures import failure_of_job, note_failures, note_losses, seconds_until_retry
from clickline.operator.reconcile.port_blocks import allocate
from clickline.operator.reconcile.replicas import note_replicas
from clickline.operator.reconcile.run_report import note_termination_message

_End = tuple[bool, str, str]
"""Whether the job has failed, the reason in a word, and in a sentence."""
_PORTS_AGAIN = 30.0


def reconcile(observed: Observed, *, settings: ReconcileSettings, now: datetime) -> Plan:
    """What is to be done about a job now."""
    job = observed.job
    if job.deleting:
        return deleting(job)
    # An end is final: a pod that is deleted, or a spec that is changed afterwards, starts nothing again.
    if job.status.finished:
        return after_end(observed, now=now)
    events: list[JobEvent] = []
    status = _accepted(job, now)
    if job.spec.suspend:
        return suspended(observed, status, now=now)
    status = _resumed(job, status, now, events)
    status = note_autoscaling(job, note_replicas(job, status, events, now=now), now=now)
    pods = [pod for pod in observed.pods if pod.revision >= status.restart_revision]
    names = {name for names in job.pod_names().values() for name in names}
    # Pods beyond the present number of replicas are not counted: they are on their way out.
    mine = [pod for pod in pods if pod.name in names]
    status = note_termination_message(job, with_counts(job, status, mine), mine, now=now)
    end: _End | None = None
    # Once all workers have succeeded there is nothing to train any more: servers that are lost now are not replaced.
    if phase_of(job, status) not in ("Completing", "Completed"):
        noted = note_failures(job, status, mine, now, events)
        if failure := failure_of_job(job, noted, mine):
            # Nothing is replaced any more, so the pods stay those of their revision.
            status = noted.model_copy(update=_revisions(status))
            end = True, *failure
        else:
            status = note_losses(job, noted, mine, events)
            mine = [pod for pod in mine if pod.revision >= status.restart_revision]
            status = with_counts(job, status, mine)
    if (end := end or _end(job, status, mine, settings=settings, now=now)) is not None:
        failed, reason, message = end
        status = ended(status, job, failed=failed, reason=reason, message=message, now=now)
        events.append(JobEvent("Warning" if failed else "Normal", reason, message))
        # The rest is that of a finished job, as it will be found again if this is as far as we come.
        plan = after_end(replace(observed, job=replace(job, status=status)), now=now)
        plan.events = events + plan.events
        return plan
    try:
        status = _with_ports(job, status, observed)
    except JobError as error:
        status = status.model_copy(update={"message": str(error)})
        return Plan(status, events=events, look_again_after=_PORTS_AGAIN)
    plan = Plan(status, events=events)
    publish_endpoints(job, plan, mine)
    _delete(plan, observed, names)
    waits = _create(plan, observed, settings=settings, now=now)
    _describe(job, plan, mine, waits=waits, now=now)
    _look_at_time(job, plan, settings=settings, now=now)
    return plan


def _accepted(job: PaddleJob, now: datetime) -> JobStatus:
    update: dict[str, object] = {"mode": job.spec.mode, "observed_generation": job.generation}
    if job.status.phase is None:
        update |= {"phase": "Pending", "accepted_time": timestamp(now)}
    return job.status.model_copy(update=update)


def _resumed(job: PaddleJob, status: JobStatus, now: datetime, events: list[JobEvent]) -> JobStatus:
    if status.phase != "Suspended":
        return status
    events.append(JobEvent("Normal", "Resumed", "the job is resumed"))
    # Pods of before the suspension may still be terminating under the names of the new ones: by their revision they do
    # not count.
    revision = status.revision + 1
    status = status.model_copy(
        update={
            "phase": "Pending",
            "accepted_time": timestamp(now),
            "revision": revision,
            "restart_revision": revision,
            "endpoints": {},
        }
    )
    message = "the job was suspended and is resumed"
    return with_condition(
        status, "Suspended", False, reason="Resumed", message=message, generation=job.generation, now=now
    )


def _with_ports(job: PaddleJob, status: JobStatus, observed: Observed) -> JobStatus:
    if job.spec.intranet != "Host":
        return status
    # Pods that are still there keep their blocks too, until they are gone.
    here = [pod.name for pod in observed.pods]
    names = [name for names in job.pod_names().values() for name in names]
    blocks = allocate(status.port_blocks, dict.fromkeys([*here, *names]), taken=observed.taken_ports)
    return status.model_copy(update={"port_blocks": blocks})


def _revisions(status: JobStatus) -> dict[str, object]:
    return {"revision": status.revision, "restart_revision": status.restart_revision}


def _end(
    job: PaddleJob, status: JobStatus, pods: list[ObservedPod], *, settings: ReconcileSettings, now: datetime
) -> _End | None:
    """How the job ends, if it does now."""
    phase = phase_of(job, status)
    if phase == "Completed":
        return False, "Completed", "all pods have succeeded"
    if phase == "Completing":
        if failed := next((pod for pod in pods if pod.role == "ps" and pod.state == "failed"), None):
            return True, "ServerFailed", f"{failed.name} failed after all workers had succeeded: {failed.message}"
        since = status.condition("Completing")
        if since and seconds_since(since.last_transition_time, now) >= settings.completing_seconds:
            return False, "Completed", "all workers have succeeded; servers that were still running are stopped"
        return None
    deadline = job.spec.active_deadline_seconds
    if deadline is not None and seconds_since(status.accepted_time, now) >= deadline:
        return True, "DeadlineExceeded", f"the job was not finished {deadline} seconds after it was accepted"
    return None


def _delete(plan: Plan, observed: Observed, names: set[str]) -> None:
    """Delete pods that are of a revision before, beyond the number of replicas, or have failed."""
    for pod in observed.pods:
        stale = pod.revision < plan.status.restart_revision
        if pod.terminating or not (stale or pod.name not in names or pod.state == "failed"):
            continue
        if pod.name not in names and observed.job.service_mode:
            plan.deletions.append(Deletion("services", pod.name))
        plan.deletions.append(Deletion("pods", pod.name, pod.uid))


def _create(plan: Plan, observed: Observed, *, settings: ReconcileSettings, now: datetime) -> str:
    """Make what is missing; gives back what it waits for, if it does."""
    if phase_of(observed.job, plan.status) == "Completing":
        return ""
    job = replace(observed.job, status=plan.status)
    here = {pod.name for pod in observed.pods}
    missing = [
        (role, index, name)
        for role, names in job.pod_names().items()
        for index, name in enumerate(names)
        if name not in here
    ]
    if uses_volcano(job, settings.scheduling):
        wanted = pod_group(job)
        if observed.group is None or observed.group.differs_from(wanted):
            plan.creations.append(wanted)
        if observed.group is None or not observed.group.admitted:
            return waiting_sentence(job, observed.group)
    # Once for each set of pods, to save a request: one that is there is kept as it is.
    if missing and not observed.pods:
        plan.creations.append(token_secret(job))
    for role, index, name in missing:
        if wait := seconds_until_retry(plan.status, name, settings=settings, now=now):
            plan.look_again(wait)
            continue
        if job.service_mode:
            plan.creations.append(pod_service(job, name))
        pod = pod_manifest(job, role, index, revision=plan.status.revision)
        plan.creations.append(mark_pod(pod, job, role, scheduling=settings.scheduling))
    return ""


def _describe(job: PaddleJob, plan: Plan, pods: list[ObservedPod], *, waits: str, now: datetime) -> None:
    """Phase, conditions and sentence."""
    before, status = job.status.phase, plan.status
    phase = phase_of(job, status)
    status = status.model_copy(update={"phase": phase})
    status = note_blocked_pods(job, status, pods, plan.events, now=now)
    status = status.model_copy(update={"message": waits or sentence(job, status)})
    if phase == "Running":
        update: dict[str, object] = {"start_time": status.start_time or timestamp(now)}
        if status.elastic == "DOING":
            update["elastic"] = "DONE"
        status = status.model_copy(update=update)
        if before != "Running":
            plan.events.append(JobEvent("Normal", "Running", "all pods are running"))
    conditions = {"Running": phase in ("Running", "Completing", "Scaling")}
    if phase == "Completing":
        conditions["Completing"] = True
    if waits or status.condition("Admitted"):
        conditions["Admitted"] = not waits
    for kind, holds in conditions.items():
        status = with_condition(
            status,
            kind,
            holds,
            reason="WaitsForGang" if waits else phase,
            message=status.message or "",
            generation=job.generation,
            now=now,
        )
    plan.status = status


def _look_at_time(job: PaddleJob, plan: Plan, *, settings: ReconcileSettings, now: datetime) -> None:
    if (deadline := job.spec.active_deadline_seconds) is not None:
        plan.look_again(max(0.1, deadline - seconds_since(plan.status.accepted_time, now)))
    if since := plan.status.condition("Completing"):
        plan.look_again(max(0.1, settings.completing_seconds - seconds_since(since.last_transition_time, now)))
