"""What is seen of a job, and what is to be done about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.job_status import JobStatus
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.gang import PodGroup
from clickline.operator.objects.observed_pod import ObservedPod


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileSettings:
    """What holds for all jobs."""

    scheduling: str = ""
    """`volcano`, or empty for no gang scheduling."""
    retry_delay: float = 10.0
    """Seconds before the pod of a first failure is replaced; twice as many after each further one."""
    retry_delay_most: float = 360.0
    completing_seconds: float = 60.0
    """Seconds for which servers may go on after all workers have succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A job with its objects, as the operator sees them."""

    job: PaddleJob
    pods: Sequence[ObservedPod] = ()
    group: PodGroup | None = None
    taken_ports: frozenset[int] = frozenset()
    """First ports of the blocks that other jobs have on nodes' networks."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event of Kubernetes about the job."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Deletion:
    """An object that is to go. With a uid only that very one goes, and not another that has its name by now."""

    resource: str
    name: str
    uid: str = ""


@dataclass(slots=True)
class Plan:
    """What is to be done, in this order: `publish`, then the status, then deletions, then creations."""

    status: JobStatus
    publish: list[KubernetesObject] = field(default_factory=list)
    """ConfigMaps that must be there before the status says that they are."""
    deletions: list[Deletion] = field(default_factory=list)
    creations: list[KubernetesObject] = field(default_factory=list)
    """In order: the pods of a role are made when all those before are."""
    events: list[JobEvent] = field(default_factory=list)
    look_again_after: float | None = None
    """Seconds after which time alone may have changed what is to be done."""
    delete_job: bool = False
    release_job: bool = False
    """Whether paddle-operator's finalizer is to be removed."""

    def look_again(self, seconds: float) -> None:
        self.look_again_after = seconds if self.look_again_after is None else min(self.look_again_after, seconds)


def timestamp(now: datetime) -> str:
    """A time as Kubernetes writes it."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_since(text: str | None, now: datetime) -> float:
    """Seconds from a time that Kubernetes wrote until now; 0 if there is none."""
    return (now - datetime.fromisoformat(text)).total_seconds() if text else 0.0
