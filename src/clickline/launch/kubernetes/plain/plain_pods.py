"""The pods of a job of plain YAML, found by the labels that its authors write: paddle-job and paddle-job-pserver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clickline.errors import JobError
from clickline.launch.kubernetes.cluster_client import ClusterClient
from clickline.launch.kubernetes.plain.plain_settings import PlainSettings
from clickline.operator.job.fields import KubernetesObject

LABELS = {"pserver": "paddle-job-pserver", "trainer": "paddle-job"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainPod:
    """One pod of a job."""

    name: str
    uid: str
    created: str
    phase: str
    ip: str
    leaving: bool
    """It is being deleted."""
    owner: KubernetesObject | None
    """The ReplicaSet or Job that made it."""

    @classmethod
    def from_object(cls, body: KubernetesObject) -> PlainPod:
        metadata, status = body["metadata"], body.get("status") or {}
        owners = [one for one in metadata.get("ownerReferences") or () if one.get("controller")]
        return cls(
            name=metadata["name"],
            uid=metadata["uid"],
            created=metadata.get("creationTimestamp") or "",
            phase=status.get("phase") or "Pending",
            ip=status.get("podIP") or "",
            leaving="deletionTimestamp" in metadata,
            owner=owners[0] if owners else None,
        )

    @property
    def runs(self) -> bool:
        return self.phase == "Running" and bool(self.ip) and not self.leaving

    @property
    def succeeded(self) -> bool:
        return self.phase == "Succeeded"

    @property
    def counts(self) -> bool:
        """Whether it has a place in the job: it runs, will run, or has done its part."""
        return self.phase != "Failed" and not self.leaving

    def in_words(self) -> str:
        where = "is being deleted" if self.leaving else f"is {self.phase}" + ("" if self.ip else ", without an IP")
        return f"{self.name} {where}"


def list_pods(client: ClusterClient, namespace: str, settings: PlainSettings, role: str) -> list[PlainPod]:
    """The pods of a role, those first that were made first: one that replaces another comes after those that stay."""
    found = client.list("Pod", namespace, labels=f"{LABELS[role]}={settings.job}")
    return sorted(map(PlainPod.from_object, found), key=lambda pod: (pod.created, pod.name))


def own_pod(pods: Sequence[PlainPod], settings: PlainSettings) -> PlainPod:
    """The pod that this process runs in. Raises JobError."""
    label = f"{LABELS[settings.role]}={settings.job}"
    by_name = [pod for pod in pods if pod.name == settings.pod_name]
    # In the network of the node, pods share its IP.
    found = by_name or [pod for pod in pods if settings.pod_ip and pod.ip == settings.pod_ip and pod.counts]
    if len(found) == 1:
        return found[0]
    names = ", ".join(pod.name for pod in pods) or "none"
    told = f"POD_NAME or HOSTNAME is {settings.pod_name!r}, POD_IP is {settings.pod_ip!r}"
    raise JobError(
        f"this pod is not to be told from the others with label {label} ({names}): {told}; give its template this "
        "label, and the container POD_NAME with valueFrom.fieldRef.fieldPath: metadata.name"
    )
