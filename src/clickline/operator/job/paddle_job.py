"""A PaddleJob as the operator handles it: who it is, what it asks for, what is known of it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.job_spec import JobSpec
from clickline.operator.job.job_status import JobStatus

GROUP, VERSION, KIND, PLURAL = "batch.paddlepaddle.org", "v1", "PaddleJob", "paddlejobs"
API_VERSION = f"{GROUP}/{VERSION}"
PADDLE_FINALIZER = "finalizers.paddlepaddle.org"
"""Set by paddle-operator on its jobs. Ours has none: what a job owns is collected with it."""
BLOCK_PORTS = 20
FIRST_PORT, BLOCKS = 36000, 1000
"""Of blocks of ports: the range from which paddle-operator draws."""
METRICS_PORT, METRICS_OFFSET = 9101, 16
"""Where a process of ours answers HTTP: a fixed port of its pod, or one of its block in the network of the node."""


@dataclass(frozen=True, slots=True)
class PaddleJob:
    """One job. It is never changed: what is decided becomes a new status."""

    namespace: str
    name: str
    uid: str
    spec: JobSpec
    status: JobStatus = field(default_factory=JobStatus)
    generation: int = 1
    resource_version: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    deleting: bool = False
    finalizers: tuple[str, ...] = ()

    @classmethod
    def from_object(cls, body: KubernetesObject) -> PaddleJob:
        """The job of an object; raises pydantic.ValidationError if the API server let through what we do not know."""
        metadata = body["metadata"]
        status = JobStatus.model_validate(body.get("status") or {})
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            spec=_scaled(JobSpec.model_validate(body.get("spec") or {}), status),
            status=status,
            generation=metadata.get("generation", 1),
            resource_version=metadata.get("resourceVersion", ""),
            labels=dict(metadata.get("labels") or {}),
            deleting="deletionTimestamp" in metadata,
            finalizers=tuple(metadata.get("finalizers") or ()),
        )

    @property
    def service_mode(self) -> bool:
        """Whether pods go by names, which stay the same when a pod is replaced."""
        return self.spec.intranet == "Service"

    @property
    def elastic_collective(self) -> bool:
        """Whether workers find each other by themselves, so that one may come or go without the others."""
        return self.spec.elastic is not None and self.spec.mode != "PS"

    def pod_names(self) -> dict[str, list[str]]:
        """Names of all pods by role, servers first."""
        return {
            role: [f"{self.name}-{role}-{index}" for index in range(count)]
            for role, count in self.spec.replicas().items()
        }

    def port_of(self, pod: str) -> int:
        """The first of 20 ports that are a pod's own.

        Services have names of their own, so one port does for all; pods have IPs of their own, and get the same block
        for the whole job, as of paddle-operator; on a node's network each pod has the block that status remembers.
        """
        if self.service_mode:
            return FIRST_PORT
        if self.spec.intranet == "Host":
            return self.status.port_blocks[pod]
        return FIRST_PORT + zlib.crc32(self.uid.encode()) % BLOCKS * BLOCK_PORTS

    def metrics_port_of(self, pod: str) -> int:
        """The port of a pod's metrics, probes and status."""
        return self.port_of(pod) + METRICS_OFFSET if self.spec.intranet == "Host" else METRICS_PORT

    @property
    def status_pod(self) -> str:
        """The pod that knows the run: server 0, which has the coordinator in it, or else worker 0."""
        return f"{self.name}-{'ps' if self.spec.mode == 'PS' else 'worker'}-0"

    def reference(self) -> KubernetesObject:
        """The entry of ownerReferences of everything that is made for the job."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def _scaled(spec: JobSpec, status: JobStatus) -> JobSpec:
    """The spec with as many workers as their policy has decided on."""
    worker, decided = spec.worker, status.autoscaling
    if spec.ps is None or worker is None or worker.autoscaling is None or decided is None:
        return spec
    return spec.model_copy(update={"worker": worker.model_copy(update={"replicas": decided.desired_replicas})})
