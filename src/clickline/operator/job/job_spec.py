"""What a PaddleJob asks for: roles with pod templates, policies, schedule. Descriptions are those of the definition.

Fields and their meanings are paddle-operator's; those that it did not have are called as a Kubernetes Job calls them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from clickline.operator.job.fields import JobFields, KubernetesObject

ROLES = ("ps", "heter", "worker")
"""In the order in which their pods are made: servers before those that connect to them."""
MOST_REPLICAS = 1000

Template = Annotated[
    KubernetesObject,
    Field(
        description="The pods of this role. The first container gets the environment of the job, except for variables "
        "that it sets itself."
    ),
]
Quantity = Annotated[int | str, Field(description="A quantity as of a container's resources, such as 4 or 8Gi.")]


class RoleSpec(JobFields):
    """Pods that do the same."""

    replicas: int = Field(ge=0, le=MOST_REPLICAS, description="Number of pods. It can be changed while the job runs.")
    requests: int | None = Field(
        default=None,
        ge=0,
        le=MOST_REPLICAS,
        description="Least number of pods: fewer replicas than these are raised to it.",
    )
    limits: int | None = Field(
        default=None,
        ge=0,
        le=MOST_REPLICAS,
        description="Greatest number of pods: more replicas than these are lowered to it.",
    )
    template: Template

    def pods(self) -> int:
        """The number of pods, within requests and limits."""
        most = self.replicas if self.limits is None else min(self.replicas, self.limits)
        return most if self.requests is None else max(most, self.requests)


class Autoscaling(JobFields):
    """How many workers there are, between requests and limits, while the job runs."""

    metric: Literal["backlog", "throughput"] = Field(
        default="backlog",
        description="backlog: as many workers as there are pieces of data for. throughput: one more at a time, which "
        "stays if rows/s grow by it.",
    )
    target: int = Field(
        default=4,
        ge=1,
        le=10**6,
        description="backlog: pieces of data for each worker that no worker has been given, epochs to come included.",
    )
    min_gain_percent: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="throughput: percent by which rows/s must grow with one more worker for it to stay.",
    )
    stabilization_seconds: int = Field(
        default=60,
        ge=0,
        le=86_400,
        description="backlog: seconds between two changes, and for which fewer workers must do before some go. "
        "throughput: seconds over which rows/s are measured before each decision.",
    )


class WorkerSpec(RoleSpec):
    """Pods that train."""

    autoscaling: Autoscaling | None = Field(
        default=None,
        description="Changes the number of workers between requests and limits while the job runs; replicas is what it "
        "begins with. Only with ps.",
    )


class SchedulingPolicy(JobFields):
    """How the pods of the job are scheduled as one gang."""

    min_available: int | None = Field(
        default=None, ge=0, le=3 * MOST_REPLICAS, description="Pods that must fit at once; all of them if not set."
    )
    queue: str | None = Field(default=None, max_length=253, description="Queue of the scheduler.")
    priority_class: str | None = Field(default=None, max_length=253, description="PriorityClass of the gang.")
    min_resources: dict[str, Quantity] | None = Field(
        default=None,
        description="Resources that must be free at once; the sum of what the containers request, or else of their "
        "limits, if not set.",
    )


CleanPodPolicy = Literal["Always", "Never", "OnFailure", "OnCompletion", "OnFailed", ""]


class JobSpec(JobFields):
    """What the job should be."""

    clean_pod_policy: CleanPodPolicy = Field(
        default="",
        description="When the pods of a finished job are deleted: Always, Never, OnFailure or OnCompletion. If empty, "
        "those of a completed job are and those of a failed one are not, as with OnCompletion. OnFailed, which "
        "stands in an example of paddle-operator, means OnFailure.",
    )
    intranet: Literal["PodIP", "Service", "Host", ""] = Field(
        default="",
        description="How pods reach each other: by the IP of the pod (PodIP, also if empty), by a headless service for "
        "each pod (Service), so that one which is replaced keeps its address, or in the network of the node (Host).",
    )
    with_gloo: Literal[0, 1, 2] | None = Field(
        default=None,
        description="Variables of Paddle's Gloo, on a port of their own: 0 off, 1 for workers, 2 for workers and "
        "servers. Without effect if there is no ps.",
    )
    elastic: int | None = Field(
        default=None,
        ge=0,
        le=MOST_REPLICAS,
        description="If set, pods get Paddle's variables of elastic training and are restarted on failure.",
    )
    scheduling_policy: SchedulingPolicy | None = Field(default=None, description="Gang scheduling.")
    suspend: bool = Field(
        default=False,
        description="Whether the job is to stop: its pods are deleted, and made again when this is false again.",
    )
    backoff_limit: int = Field(
        default=6,
        ge=0,
        le=1000,
        description="Failures of pods, restarts of containers among them, after which the job has failed.",
    )
    active_deadline_seconds: int | None = Field(
        default=None,
        ge=1,
        le=10**9,
        description="Seconds after which the job has failed if it is not finished, from when it was first seen or last "
        "resumed. Its active pods are deleted then, whatever cleanPodPolicy says.",
    )
    ttl_seconds_after_finished: int | None = Field(
        default=None, ge=0, le=10**9, description="Seconds after which a finished job is deleted; never if not set."
    )
    ps: RoleSpec | None = Field(default=None, description="Parameter servers, TRAINING_ROLE=PSERVER.")
    worker: WorkerSpec | None = Field(default=None, description="Trainers, TRAINING_ROLE=TRAINER.")
    heter: RoleSpec | None = Field(default=None, description="Heterogeneous trainers, TRAINING_ROLE=HETER.")

    def roles(self) -> dict[str, RoleSpec]:
        """The roles that the job has, servers first."""
        roles: dict[str, RoleSpec | None] = {"ps": self.ps, "heter": self.heter, "worker": self.worker}
        return {name: role for name, role in roles.items() if role is not None}

    def replicas(self) -> dict[str, int]:
        """The number of pods of each role."""
        return {name: role.pods() for name, role in self.roles().items()}

    @property
    def mode(self) -> str:
        """PS, Collective or Single."""
        if self.ps is not None:
            return "PS"
        return "Collective" if self.worker is not None and self.worker.pods() > 1 else "Single"

    @property
    def cleans(self) -> tuple[bool, bool]:
        """Whether pods are deleted when the job has completed, and when it has failed."""
        return {
            "Always": (True, True),
            "Never": (False, False),
            "OnFailure": (False, True),
            "OnFailed": (False, True),
        }.get(self.clean_pod_policy, (True, False))
