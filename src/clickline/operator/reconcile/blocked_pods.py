"""Pods that do not start: a condition that says which and why, and an event when it begins.

The reason is for programs, which must not go by the words: a launcher gives up a job whose image is not there, and
waits for a place to run for as long as it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from clickline.operator.job.job_status import JobStatus
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.observed_pod import ObservedPod
from clickline.operator.objects.start_blocker import BlockerKind
from clickline.operator.reconcile.phases import START_BLOCKED, with_condition
from clickline.operator.reconcile.plan import JobEvent

_ORDER: tuple[BlockerKind, ...] = ("ImageNotAvailable", "ContainerNotCreated", "Unschedulable")
"""What somebody has to mend comes first; a place to run may come by itself."""


def note_blocked_pods(
    job: PaddleJob, status: JobStatus, pods: Sequence[ObservedPod], events: list[JobEvent], *, now: datetime
) -> JobStatus:
    """The status with the condition that a pod is kept from starting."""
    before = status.condition(START_BLOCKED)
    blocked = [(_ORDER.index(pod.blocker.kind), pod.name, pod.blocker) for pod in pods if pod.blocker is not None]
    if not blocked:
        if before is None or before.status == "False":
            return status
        return with_condition(
            status,
            START_BLOCKED,
            False,
            reason="Started",
            message="no pod is kept from starting",
            generation=job.generation,
            now=now,
        )
    place, name, blocker = min(blocked, key=lambda one: one[:2])
    others = sum(other == place for other, _, _ in blocked) - 1
    subject = f"{name} and {others} other{'s' * (others > 1)} do" if others else f"{name} does"
    message = f"{subject} not start: {blocker.sentence}"
    holds = before is not None and before.status == "True" and before.reason == blocker.kind
    if before is not None and holds and before.message.startswith(f"{message} ("):
        # With the detail of an earlier try, which the kubelet does not repeat each time.
        message = before.message
    elif blocker.detail:
        message = f"{message} ({blocker.detail})"
    if not holds:
        events.append(JobEvent("Warning", blocker.kind, message))
    return with_condition(
        status, START_BLOCKED, True, reason=blocker.kind, message=message, generation=job.generation, now=now
    )
