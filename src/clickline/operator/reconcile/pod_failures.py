"""Pods that failed or were lost: each is counted once, and replaced alone or with all others.

A failure is noted in the status by the pod's uid before anything is done about it, so that an operator
which was killed in between does not count it twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from clickline.operator.job.job_status import JobStatus, PodFailure
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.observed_pod import ObservedPod
from clickline.operator.reconcile.plan import JobEvent, ReconcileSettings, seconds_since, timestamp
from clickline.processes.exit_reasons import VICTIM

_KEPT = 20


def restarts_all(job: PaddleJob, role: str) -> bool:
    """Whether all pods are replaced with one of this role.

    Ranks of a collective job wait for each other, and whoever knew a server by its IP does not find the next one. A
    service's name stays, and nobody connects to a trainer.
    """
    if job.spec.mode == "PS":
        return role == "ps" and not job.service_mode
    return not job.elastic_collective


def note_failures(
    job: PaddleJob, status: JobStatus, pods: Sequence[ObservedPod], now: datetime, events: list[JobEvent]
) -> JobStatus:
    """The status with failures that are new, and a new revision for the pods that replace them."""
    known = {failure.uid for failure in status.failures}
    failed = [pod for pod in pods if pod.state == "failed" and not pod.terminating and pod.uid not in known]
    if not failed:
        return status
    # The cause before those that failed because of it.
    failed.sort(key=lambda pod: (pod.exit_code == VICTIM, pod.ended_at, pod.name))
    new = [_failure(pod, now) for pod in failed]
    together = any(restarts_all(job, pod.role) for pod in failed)
    for failure in new:
        events.append(JobEvent("Warning", "PodFailed", f"{failure.pod} failed, {failure.reason}: {failure.message}"))
    revision = status.revision + 1
    present = {pod.uid for pod in pods}
    all_of_them = [*status.failures, *new]
    # One whose pod is still there must be remembered, or it would be counted again.
    kept = [one for place, one in enumerate(all_of_them) if place >= len(all_of_them) - _KEPT or one.uid in present]
    return status.model_copy(
        update={
            "failures": kept,
            "first_failure": status.first_failure or new[0],
            "restarts": status.restarts + (1 if together else len(new)),
            "revision": revision,
            "restart_revision": revision if together else status.restart_revision,
            "endpoints": _without(status, {pod.name for pod in failed}, everything=together),
            "phase": "Restarting",
        }
    )


def note_losses(job: PaddleJob, status: JobStatus, pods: Sequence[ObservedPod], events: list[JobEvent]) -> JobStatus:
    """The status after pods were deleted that had told others their IPs; by whom does not matter, nor how often."""
    here = {pod.name: pod.uid for pod in pods if not pod.terminating}
    lost = [
        (role, name)
        for role, names in job.pod_names().items()
        for name in names
        if name in status.endpoints and status.endpoints[name] != here.get(name)
    ]
    if not lost:
        return status
    together = any(restarts_all(job, role) for role, _ in lost)
    names = ", ".join(name for _, name in lost)
    everything = "; all pods are replaced, since they knew it by its address" if together else ""
    events.append(JobEvent("Warning", "PodLost", f"{names} deleted by somebody else{everything}"))
    revision = status.revision + 1
    return status.model_copy(
        update={
            "revision": revision,
            "restart_revision": revision if together else status.restart_revision,
            "endpoints": _without(status, {name for _, name in lost}, everything=together),
            "phase": "Restarting",
        }
    )


def failure_of_job(job: PaddleJob, status: JobStatus, pods: Sequence[ObservedPod]) -> tuple[str, str] | None:
    """Reason and message if the job has failed for good by its pods."""
    # Restarts of containers, by the kubelet, count as much as pods that were replaced: the limit is one on failures.
    count = status.restarts + sum(pod.container_restarts for pod in pods)
    if count <= job.spec.backoff_limit:
        return None
    times = f"{count} failure{'s' * (count != 1)} of pods or containers, {job.spec.backoff_limit} are allowed"
    if first := status.first_failure:
        return "BackoffLimitExceeded", f"{first.pod} failed first, {first.reason}: {first.message}; {times}"
    worst = max(pods, key=lambda pod: pod.container_restarts)
    return "BackoffLimitExceeded", f"{worst.name} was restarted {worst.container_restarts} times; {times}"


def seconds_until_retry(status: JobStatus, name: str, *, settings: ReconcileSettings, now: datetime) -> float:
    """Seconds before a pod may be made again."""
    if not status.failures or status.phase != "Restarting":
        return 0.0
    # Where all start over they wait together, for the last that failed; a pod replaced alone waits for itself only.
    last = status.failures[-1]
    if status.restart_revision != status.revision:
        mine = [failure for failure in status.failures if failure.pod == name]
        if not mine:
            return 0.0
        last = mine[-1]
    delay = min(settings.retry_delay * 2.0 ** (max(status.restarts, 1) - 1), settings.retry_delay_most)
    return max(0.0, delay - seconds_since(last.time, now))


def _without(status: JobStatus, names: Collection[str], *, everything: bool) -> dict[str, str]:
    """The endpoints that are still those of pods which are there."""
    return {} if everything else {name: uid for name, uid in status.endpoints.items() if name not in names}


def _failure(pod: ObservedPod, now: datetime) -> PodFailure:
    return PodFailure(
        pod=pod.name,
        uid=pod.uid,
        reason=pod.reason,
        exit_code=pod.exit_code,
        message=pod.message,
        time=timestamp(now),
    )
