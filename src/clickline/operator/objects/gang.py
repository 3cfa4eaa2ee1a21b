"""Gang scheduling: Volcano's PodGroup, which admits all pods of a job or none, or Kueue's labels on pods."""

from __future__ import annotations

from dataclasses import dataclass, field

from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.names import metadata
from clickline.operator.objects.quantities import total

VOLCANO = "volcano"
POD_GROUPS = "podgroups"
POD_GROUP_VERSION = "scheduling.volcano.sh/v1beta1"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_ADMITTED = ("Inqueue", "Running")


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A gang as Volcano has it."""

    phase: str
    message: str = ""
    spec: KubernetesObject = field(default_factory=dict)

    @property
    def admitted(self) -> bool:
        return self.phase in _ADMITTED

    @classmethod
    def from_object(cls, body: KubernetesObject) -> PodGroup:
        status = body.get("status") or {}
        conditions = status.get("conditions") or ()
        messages = [one.get("message") for one in conditions if one.get("type") == "Unschedulable"]
        message = next((text for text in messages[::-1] if text), "")
        return cls(phase=status.get("phase") or "Pending", message=message, spec=body.get("spec") or {})

    def differs_from(self, wanted: KubernetesObject) -> bool:
        """Whether it asks for something else than the PodGroup that is wanted; what Volcano adds does not count."""
        return any(self.spec.get(key) != value for key, value in wanted["spec"].items())


def uses_volcano(job: PaddleJob, scheduling: str) -> bool:
    """Whether a job is scheduled by Volcano: the operator is told to, and no role names another scheduler."""
    if scheduling != VOLCANO or KUEUE_QUEUE in job.labels:
        return False
    named = {(role.template.get("spec") or {}).get("schedulerName") for role in job.spec.roles().values()}
    return not named - {None, "", VOLCANO}


def pod_group(job: PaddleJob) -> KubernetesObject:
    """The PodGroup of a job."""
    policy = job.spec.scheduling_policy
    spec: KubernetesObject = {
        "minMember": _least(job),
        "minResources": policy.min_resources if policy and policy.min_resources else _requested(job),
    }
    if policy and policy.queue:
        spec["queue"] = policy.queue
    if policy and policy.priority_class:
        spec["priorityClassName"] = policy.priority_class
    return {
        "apiVersion": POD_GROUP_VERSION,
        "kind": "PodGroup",
        "metadata": metadata(job, job.name),
        "spec": spec,
    }


def waiting_sentence(job: PaddleJob, group: PodGroup | None) -> str:
    """What a gang that is not admitted waits for."""
    spec = pod_group(job)["spec"]
    resources = ", ".join(f"{name} {amount}" for name, amount in spec["minResources"].items())
    needs = f"{spec['minMember']} pods at once" + (f" with {resources}" if resources else "")
    where = f" in queue {spec['queue']!r}" if "queue" in spec else ""
    said = f"; it says: {group.message}" if group and group.message else ""
    return f"waiting for Volcano to admit {needs}{where}{said}"


def mark_pod(pod: KubernetesObject, job: PaddleJob, role: str, *, scheduling: str) -> KubernetesObject:
    """The pod as a member of its gang."""
    annotations, labels = pod["metadata"]["annotations"], pod["metadata"]["labels"]
    policy = job.spec.scheduling_policy
    if uses_volcano(job, scheduling):
        pod["spec"]["schedulerName"] = VOLCANO
        annotations |= {
            "scheduling.k8s.io/group-name": job.name,
            "volcano.sh/task-spec": role,
            "volcano.sh/job-name": job.name,
            "volcano.sh/job-version": str(job.generation),
        }
        if policy and policy.queue:
            annotations["volcano.sh/queue-name"] = policy.queue
    elif KUEUE_QUEUE in job.labels:
        labels |= {KUEUE_QUEUE: job.labels[KUEUE_QUEUE], "kueue.x-k8s.io/pod-group-name": job.name}
        annotations["kueue.x-k8s.io/pod-group-total-count"] = str(sum(job.spec.replicas().values()))
        if policy and policy.priority_class:
            labels["kueue.x-k8s.io/priority-class"] = policy.priority_class
    return pod


def _least(job: PaddleJob) -> int:
    policy = job.spec.scheduling_policy
    if policy and policy.min_available is not None:
        return policy.min_available
    return sum(job.spec.replicas().values())


def _requested(job: PaddleJob) -> dict[str, str]:
    counts = job.spec.replicas()
    amounts = []
    for name, role in job.spec.roles().items():
        for container in role.template["spec"]["containers"]:
            resources = container.get("resources") or {}
            # A limit without a request is the request too, resource by resource.
            amounts.append(((resources.get("limits") or {}) | (resources.get("requests") or {}), counts[name]))
    return total(amounts)
