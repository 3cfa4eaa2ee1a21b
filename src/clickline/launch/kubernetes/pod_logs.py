"""The logs of a job's pods, followed by a thread for each, as lines of one queue."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass

from clickline.errors import PeerError
from clickline.launch.kubernetes.cluster_client import ClusterClient
from clickline.operator.job.fields import KubernetesObject
from clickline.operator.objects.names import JOB_LABEL, ROLE_LABEL

_PROCESSES = {"ps": "pserver", "worker": "trainer", "heter": "heter"}


@dataclass(frozen=True, slots=True)
class PodLine:
    """A line that a pod has written."""

    pod: str
    process: str
    text: str


def process_of(pod: KubernetesObject) -> str:
    """Such as pserver.0: what a pod of a PaddleJob runs."""
    metadata = pod["metadata"]
    role = (metadata.get("labels") or {}).get(ROLE_LABEL, "worker")
    return f"{_PROCESSES.get(role, role)}.{metadata['name'].rpartition('-')[2]}"


def pods_of(client: ClusterClient, namespace: str, job: str) -> list[KubernetesObject]:
    """The pods of a PaddleJob."""
    return client.list("Pod", namespace, labels=f"{JOB_LABEL}={job}")


def states_of(pod: KubernetesObject) -> set[str]:
    """What its containers do: waiting, running, terminated."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return {state for one in statuses for state in one.get("state") or ()}


@dataclass(slots=True)
class _Followed:
    """One pod's log."""

    pod: str
    process: str
    thread: threading.Thread | None = None
    last: str = ""
    """Time of the last line, by which those after it are told when a connection has ended too early."""
    complete: bool = False
    """Whether it was read to its end."""
    complained: bool = False


class PodLogs:
    """Follows each pod until its container has ended; a pod that replaces another is another."""

    def __init__(self, client: ClusterClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._followed: dict[str, _Followed] = {}
        self.lines: queue.Queue[PodLine] = queue.Queue()

    def look_at(self, pods: list[KubernetesObject]) -> None:
        """Follow those that have begun, and follow on where a connection has ended before the container."""
        for pod in pods:
            states = states_of(pod)
            if not states & {"running", "terminated"}:
                continue
            name = pod["metadata"]["name"]
            # By uid: a pod that replaces another has the same name, and a log of its own.
            one = self._followed.setdefault(pod["metadata"]["uid"], _Followed(name, process_of(pod)))
            if one.complete or (one.thread is not None and one.thread.is_alive()):
                continue
            one.thread = threading.Thread(target=self._follow, args=(one, states == {"terminated"}), daemon=True)
            one.thread.start()

    def wait(self, seconds: float) -> None:
        """For the ends of logs, when the containers have ended."""
        until = time.monotonic() + seconds
        for one in self._followed.values():
            if one.thread is not None:
                one.thread.join(max(0.0, until - time.monotonic()))

    def taken(self) -> list[PodLine]:
        """Lines that have come since."""
        lines = []
        while not self.lines.empty():
            lines.append(self.lines.get())
        return lines

    def _follow(self, one: _Followed, has_ended: bool) -> None:
        since = {"sinceTime": one.last} if one.last else {}
        try:
            with self._client.lines(self._namespace, one.pod, follow="true", timestamps="true", **since) as lines:
                for line in lines:
                    time_of_it, _, text = line.partition(" ")
                    if time_of_it > one.last:  # `sinceTime` counts whole seconds
                        one.last = time_of_it
                        self.lines.put(PodLine(one.pod, one.process, text))
            one.complete = has_ended
        except PeerError as error:
            one.complete = has_ended
            if not one.complained:
                one.complained = True
                self.lines.put(PodLine(one.pod, one.process, f"its log cannot be followed: {error}"))
