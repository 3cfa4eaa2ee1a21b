"""What is known of a PaddleJob: phase, counts, failures, and what the operator must find again after it was restarted.

Whatever the operator has decided is written here before it acts on it. One that is killed between the two finds its
decision, and the pods as they are, and comes to the same actions again.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clickline.operator.job.fields import JobFields

Phase = Literal[
    "Pending",
    "Starting",
    "Running",
    "Scaling",
    "Restarting",
    "Completing",
    "Completed",
    "Failed",
    "Suspended",
    "Terminating",
]
FINISHED = ("Completed", "Failed")


class PodReference(JobFields):
    """A pod of the job."""

    kind: str = Field(default="Pod", description="Always Pod.")
    name: str = Field(description="Its name.")
    uid: str = Field(default="", description="Its uid.")


class RoleStatus(JobFields):
    """How many pods of a role are in which state."""

    pending: int = Field(default=0, description="Not scheduled, or their images are still fetched.")
    starting: int = Field(default=0, description="Init containers run, or not all containers are ready.")
    running: int = Field(default=0, description="All containers are ready.")
    failed: int = Field(default=0, description="Ended with a failure.")
    succeeded: int = Field(default=0, description="Ended without one.")
    unknown: int = Field(default=0, description="Their node does not answer.")
    refs: list[PodReference] = Field(default_factory=list, description="The pods.")


class PodFailure(JobFields):
    """How a pod failed."""

    pod: str = Field(description="Name of the pod.")
    uid: str = Field(default="", description="Its uid: another may have the name by now.")
    reason: str = Field(default="", description="In a word, such as OOMKilled, Evicted or Error.")
    exit_code: int | None = Field(default=None, description="Of the container that failed.")
    message: str = Field(default="", description="In a sentence.")
    time: str = Field(default="", description="When the operator saw it.")


class Condition(JobFields):
    """One aspect of the job's state, in the shape that all of Kubernetes uses."""

    type: str = Field(
        description="Admitted, Running, Completing, Complete, Failed, Suspended, Resharded, ReplicasLimited or "
        "AutoscalingActive."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(default="", description="Why, in a word.")
    message: str = Field(default="", description="Why, in a sentence.")
    last_transition_time: str = Field(default="", description="When the status last changed.")
    observed_generation: int | None = Field(default=None, description="Generation of the spec that it is about.")


class TrainerMetric(JobFields):
    """A figure of the run."""

    name: str = Field(description="Such as auc, loss, rows_per_second or test_auc.")
    value: str = Field(default="", description="The number, as text.")


class TrainerStatus(JobFields):
    """How far the run is. The names are those of Kubeflow Trainer, beside epochs, steps and rows."""

    phase: str = Field(default="", description="gathering, training, evaluating, finished, failed or interrupted.")
    progress_percentage: int | None = Field(default=None, ge=0, le=100, description="Of the whole run.")
    estimated_remaining_seconds: int | None = Field(default=None, ge=0, description="By the speed of late.")
    epoch: int = Field(default=0, description="The epoch under way, from 1; 0 before the first.")
    epochs: int = Field(default=0, description="Epochs wanted.")
    step: int = Field(default=0, description="Steps taken by all trainers.")
    rows: int = Field(default=0, description="Rows trained by all trainers.")
    metrics: list[TrainerMetric] = Field(default_factory=list, description="Figures of the run.")
    last_updated_time: str = Field(default="", description="When the run said so.")

    def metric(self, name: str) -> str | None:
        return next((metric.value for metric in self.metrics if metric.name == name), None)


class AutoscalingStatus(JobFields):
    """What the policy of the workers has decided."""

    desired_replicas: int = Field(description="Number of workers that it wants.")
    message: str = Field(default="", description="Why, in a sentence.")
    last_scale_time: str = Field(default="", description="When it last wanted another number.")
    baseline_replicas: int | None = Field(default=None, description="throughput: workers before one more was tried.")
    baseline_rows_per_second: int | None = Field(default=None, description="throughput: rows/s with so many.")
    settled: bool = Field(default=False, description="throughput: whether no more workers are tried.")
    observed_generation: int | None = Field(default=None, description="Generation of the spec that this is about.")


class JobStatus(JobFields):
    """What the operator has seen and decided."""

    phase: Phase | None = Field(default=None, description="Where the job stands.")
    mode: Literal["PS", "Collective", "Single"] | None = Field(
        default=None, description="PS if there is a ps, Collective if there are several workers, else Single."
    )
    message: str | None = Field(default=None, description="Where the job stands, in a sentence.")
    ps: RoleStatus | None = Field(default=None, description="Counts of parameter servers.")
    worker: RoleStatus | None = Field(default=None, description="Counts of trainers.")
    heter: RoleStatus | None = Field(default=None, description="Counts of heterogeneous trainers.")
    elastic: Literal["NONE", "DOING", "DONE", "ERROR"] | None = Field(
        default=None, description="Change of replicas: none so far, under way, done; ERROR is never set."
    )
    accepted_time: str | None = Field(default=None, description="When the job was first seen, or last resumed.")
    start_time: str | None = Field(default=None, description="When all pods first ran.")
    completion_time: str | None = Field(default=None, description="When the job completed or failed.")
    observed_generation: int | None = Field(default=None, description="Generation of the spec that this is about.")
    conditions: list[Condition] = Field(default_factory=list, description="Aspects of the state.")
    trainer_status: TrainerStatus | None = Field(
        default=None, description="Progress of the run, if its pods are of a kind that tells it."
    )
    autoscaling: AutoscalingStatus | None = Field(default=None, description="Of the policy of the workers.")
    restarts: int = Field(
        default=0, description="Failures of pods; those that led to one restart of all pods count once."
    )
    first_failure: PodFailure | None = Field(default=None, description="The pod that failed first.")
    failures: list[PodFailure] = Field(
        default_factory=list, description="The last 20 failures, and those whose pods are still there."
    )
    replicas: dict[str, int] | None = Field(default=None, description="Pods of each role that the job has come to.")
    revision: int = Field(
        default=0, description="Counts changes of the set of pods; each has endpoints in a ConfigMap of its own."
    )
    restart_revision: int = Field(default=0, description="Pods of earlier revisions than this are replaced.")
    endpoints_revision: int | None = Field(default=None, description="The revision whose endpoints are published.")
    endpoints: dict[str, str] = Field(
        default_factory=dict, description="The uid of each pod whose address the others have been told."
    )
    port_blocks: dict[str, int] = Field(
        default_factory=dict, description="First of 20 ports for each pod, in the node's network (intranet: Host)."
    )

    def role(self, name: str) -> RoleStatus:
        return getattr(self, name) or RoleStatus()

    def condition(self, kind: str) -> Condition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED
