"""A pod as the operator sees it: whose it is, in which of six states, and how it failed or why it does not start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clickline.operator.job.fields import KubernetesObject
from clickline.operator.objects.names import REVISION_ANNOTATION, ROLE_LABEL
from clickline.operator.objects.start_blocker import StartBlocker, start_blocker
from clickline.processes.exit_reasons import in_words

PodState = Literal["pending", "starting", "running", "failed", "succeeded", "unknown"]
_LONGEST_MESSAGE, _LONGEST_SAID = 1000, 600


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """One pod of a job."""

    name: str
    uid: str
    role: str
    index: int
    state: PodState
    revision: int = 0
    ip: str = ""
    terminating: bool = False
    container_restarts: int = 0
    reason: str = ""
    exit_code: int | None = None
    message: str = ""
    ended_at: str = ""
    termination_message: str = ""
    """Of the first container of a pod that has succeeded."""
    blocker: StartBlocker | None = None
    """What keeps it from starting."""

    @property
    def ended(self) -> bool:
        return self.state in ("failed", "succeeded")

    @classmethod
    def from_object(cls, body: KubernetesObject) -> ObservedPod:
        metadata, status = body["metadata"], body.get("status") or {}
        name, annotations = metadata["name"], metadata.get("annotations") or {}
        state = _state(status)
        reason, exit_code, message, ended_at = _failure(status) if state == "failed" else ("", None, "", "")
        return cls(
            name=name,
            uid=metadata["uid"],
            role=(metadata.get("labels") or {}).get(ROLE_LABEL, ""),
            index=int(name.rpartition("-")[2]),
            state=state,
            revision=int(annotations.get(REVISION_ANNOTATION, "0")),
            ip=status.get("podIP", ""),
            terminating="deletionTimestamp" in metadata,
            container_restarts=sum(one.get("restartCount", 0) for one in status.get("containerStatuses") or ()),
            reason=reason,
            exit_code=exit_code,
            message=message[:_LONGEST_MESSAGE],
            ended_at=ended_at,
            termination_message=_termination_message(body, status) if state == "succeeded" else "",
            # Also of one that has run: its containers may be started again, on a node that has lost the image.
            blocker=start_blocker(body) if state in ("pending", "starting") else None,
        )


def _state(status: KubernetesObject) -> PodState:
    phase = status.get("phase", "Pending")
    if phase == "Running":
        containers = status.get("containerStatuses") or ()
        return "running" if containers and all(one.get("ready") for one in containers) else "starting"
    if phase == "Pending":
        started = any("running" in (one.get("state") or {}) for one in status.get("initContainerStatuses") or ())
        return "starting" if started else "pending"
    states: dict[str, PodState] = {"Succeeded": "succeeded", "Failed": "failed"}
    return states.get(phase, "unknown")


def _failure(status: KubernetesObject) -> tuple[str, int | None, str, str]:
    """Reason, exit code, sentence and time. The pod's own reason first: one that was evicted did nothing wrong."""
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    ends = [(one["name"], (one.get("state") or {}).get("terminated") or {}) for one in containers]
    failed = [(name, end) for name, end in ends if end.get("exitCode")]
    name, end = min(failed, key=lambda pair: pair[1].get("finishedAt") or "~") if failed else ("", {})
    exit_code, ended_at = end.get("exitCode"), end.get("finishedAt") or ""
    if status.get("reason"):
        return status["reason"], exit_code, status.get("message") or status["reason"], ended_at
    if exit_code is None:
        return "Failed", None, "the pod failed and no container says why", ""
    reason = end.get("reason") or "Error"
    words = f"container {name!r}: {in_words(exit_code, out_of_memory=reason == 'OOMKilled')}"
    said = (end.get("message") or "").strip()[-_LONGEST_SAID:]  # of the end of a log, what matters is the end
    return reason, exit_code, f"{words}; it said: {said}" if said else words, ended_at


def _termination_message(body: KubernetesObject, status: KubernetesObject) -> str:
    containers = (body.get("spec") or {}).get("containers") or ()
    first = containers[0]["name"] if containers else ""
    ends = [one for one in status.get("containerStatuses") or () if one["name"] == first]
    return next((str(((one.get("state") or {}).get("terminated") or {}).get("message") or "") for one in ends), "")
