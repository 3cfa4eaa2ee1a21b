"""Why a pod does not start, in words: its image, its place, or what its container refers to.

Sentences stay the same for as long as the cause does, although the kubelet's own change with each try: a status that
changes is a request to the API server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clickline.operator.job.fields import KubernetesObject

BlockerKind = Literal["ImageNotAvailable", "ContainerNotCreated", "Unschedulable"]
_BUILD = "`clickline image` says how to build one and push it"
_PULLED = (
    "cannot be pulled: check its name, that nodes reach its registry, and that imagePullSecrets (of a job: "
    f"cluster.kubernetes.pull_secret) names a Secret for it; {_BUILD}"
)
_IMAGES = {
    "ErrImagePull": _PULLED,
    "ImagePullBackOff": _PULLED,
    "RegistryUnavailable": _PULLED,
    "ErrImageNeverPull": f"is not on the node, and imagePullPolicy: Never forbids to pull it: load it there; {_BUILD}",
    "InvalidImageName": f"is not the name of an image; expected is REGISTRY/NAME:TAG; {_BUILD}",
}
_CONTAINERS = ("CreateContainerConfigError", "CreateContainerError")


@dataclass(frozen=True, slots=True)
class StartBlocker:
    """What keeps a pod from starting."""

    kind: BlockerKind
    sentence: str
    detail: str = ""
    """What the container runtime has said, where it says it only now and then."""


def start_blocker(body: KubernetesObject) -> StartBlocker | None:
    """What keeps a pod from starting; None if nothing is known to."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            said = condition.get("message") or condition.get("reason") or "the scheduler does not say why"
            return StartBlocker("Unschedulable", f"no node takes it, the scheduler says: {said}")
    for one in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (one.get("state") or {}).get("waiting") or {}
        reason, said = waiting.get("reason") or "", str(waiting.get("message") or "").strip()
        if reason in _IMAGES:
            # The runtime's words come with the try itself; while the kubelet backs off, it repeats the name only.
            detail = said if reason == "ErrImagePull" else ""
            return StartBlocker("ImageNotAvailable", f"the image {_image(spec, one)!r} {_IMAGES[reason]}", detail)
        if reason in _CONTAINERS and not _awaits_endpoints(spec, said):
            return StartBlocker(
                "ContainerNotCreated",
                f"container {one.get('name')!r} cannot be made: {said or reason}; make the Secret, ConfigMap or volume "
                "that it refers to, or correct the job",
            )
    return None


def _image(spec: KubernetesObject, container_status: KubernetesObject) -> str:
    """As the pod asks for it: the status of a container that never ran may have another form of it, or none."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    asked = {one.get("name"): one.get("image") for one in containers}
    return str(asked.get(container_status.get("name")) or container_status.get("image") or "")


def _awaits_endpoints(spec: KubernetesObject, said: str) -> bool:
    """Whether a container waits for the ConfigMap of its job's endpoints, which comes when all pods have addresses."""
    for container in spec.get("containers") or ():
        for source in container.get("envFrom") or ():
            name = (source.get("configMapRef") or {}).get("name")
            if name and f'"{name}"' in said:
                return True
    return False
