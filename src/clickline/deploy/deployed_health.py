"""How a deployed suite is: each pod, by what its probes say, and the version in service, by transfer's own page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from clickline.deploy.deployed_suite import DeployedSuite
from clickline.deploy.objects.suite_names import (
    CLIENT,
    CUBE,
    CUBE_HTTP_PORT,
    PART_LABEL,
    TRAINING,
    TRANSFER,
    TRANSFER_PORT,
)
from clickline.launch.delivery_status import DeliveryStatus
from clickline.operator.job.fields import KubernetesObject

WELL = "well"


class PodHealth(TypedDict):
    """One pod."""

    pod: str
    part: str
    health: str
    """`well`, `done`, or what is wrong."""
    restarts: int
    node: str
    version: int | None
    """Of a cube server, if its page can be reached."""


class DeployedHealth(TypedDict):
    """What `clickline status --deployed NAME --json` prints."""

    suite: str
    namespace: str
    pods: list[PodHealth]
    version: int | None
    """In service, by transfer; None if its page cannot be reached."""
    rolling: int | None
    """On its way."""
    training: dict[str, Any] | None
    """The stage of training that has ended last."""
    complaints: list[str]
    well: bool


def examine_deployed(suite: DeployedSuite) -> DeployedHealth:
    """Look once. Raises PeerError if there is no such suite."""
    suite.check_exists()
    pods = [_pod_health(suite, pod) for pod in suite.pods()]
    delivery = delivery_of(suite) or DeliveryStatus()
    complaints = [f"{pod['pod']}: {pod['health']}" for pod in pods if pod["health"] not in (WELL, "done")]
    complaints += _missing(suite)
    if delivery.problem:
        complaints.append(f"transfer: {delivery.problem}")
    stages = list(suite.training_stages())
    return {
        "suite": suite.name,
        "namespace": suite.namespace,
        "pods": sorted(pods, key=lambda pod: (pod["part"], pod["pod"])),
        "version": delivery.serving or None,
        "rolling": delivery.rolling or None,
        "training": stages[-1] if stages else None,
        "complaints": complaints,
        "well": not complaints,
    }


def is_ready(pod: KubernetesObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _pod_health(suite: DeployedSuite, pod: KubernetesObject) -> PodHealth:
    metadata, status = pod["metadata"], pod.get("status") or {}
    part = (metadata.get("labels") or {}).get(PART_LABEL) or TRAINING
    page: Mapping[str, Any] = {}
    if part == CUBE:
        # Through the API server, which may not be let in: then the version is not known, and readiness says enough.
        page = suite.client.page(suite.namespace, metadata["name"], CUBE_HTTP_PORT, "/health") or {}
    return {
        "pod": metadata["name"],
        "part": part,
        "health": _health(pod, part),
        "restarts": sum(one.get("restartCount", 0) for one in status.get("containerStatuses") or ()),
        "node": (pod.get("spec") or {}).get("nodeName", ""),
        "version": int(page.get("version") or 0) or None,
    }


def _health(pod: KubernetesObject, part: str) -> str:
    status = pod.get("status") or {}
    phase = status.get("phase", "Pending")
    if phase == "Succeeded":
        return "done"
    # Before the phase: a pod whose container crashes again and again is in phase Running.
    for one in status.get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in ("ContainerCreating", "PodInitializing"):
            return f"{one['name']}: {waiting['reason']}{_said(waiting)}"
    if phase == "Failed":
        return f"failed: {status.get('reason') or status.get('message') or 'its log says why'}"
    if phase == "Pending":
        # The scheduler says what no node has: room, or a volume.
        unscheduled = [one for one in status.get("conditions") or () if one["type"] == "PodScheduled"]
        why = next((one.get("message", "") for one in unscheduled if one["status"] != "True"), "")
        return f"pending: {why}" if why else "starting"
    if part == CLIENT and not is_ready(pod):
        return "no prediction has come back yet"
    return WELL if is_ready(pod) else "not ready"


def _said(waiting: Mapping[str, Any]) -> str:
    return f", {waiting['message']}" if waiting.get("message") else ""


def delivery_of(suite: DeployedSuite) -> DeliveryStatus | None:
    """What transfer says, through the API server; None where that does not reach it."""
    for pod in suite.objects("Pod", part=TRANSFER):
        page = suite.client.page(suite.namespace, pod["metadata"]["name"], TRANSFER_PORT, "/status")
        if page is not None:
            return DeliveryStatus.of(page)
    return None


def _missing(suite: DeployedSuite) -> list[str]:
    """Parts of which there are fewer pods than there should be."""
    short = []
    # A pod that a quota or an admission webhook refuses is in no list of pods: only its owner knows of it.
    for kind in ("Deployment", "StatefulSet"):
        for body in suite.objects(kind):
            wanted, there = body["spec"].get("replicas", 1), (body.get("status") or {}).get("replicas", 0)
            if there < wanted:
                short.append(f"{body['metadata']['name']}: {there} of {wanted} pods are there")
    return short
