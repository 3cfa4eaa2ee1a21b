"""A job in a cluster, followed to its end: what its status says, how far its run is, what its pods write."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TextIO

from clickline.errors import ClicklineError, PeerError
from clickline.launch.kubernetes.cluster_checks import FINISHED
from clickline.launch.kubernetes.cluster_client import ClusterClient
from clickline.launch.kubernetes.pod_logs import PodLogs, pods_of
from clickline.operator.job.fields import KubernetesObject
from clickline.progress import Watcher

_LOOK_EVERY = 1.0
_LOGS_END = 5.0
_PATIENCE = 300.0
"""Seconds for which the API server may stay away: the job does not need us."""


class JobFailed(ClicklineError):
    """The job has failed in the cluster."""


class JobFollower:
    """Follows one PaddleJob."""

    def __init__(self, client: ClusterClient, namespace: str, name: str, *, watcher: Watcher, log: TextIO) -> None:
        self._client, self._namespace, self._name = client, namespace, name
        self._watcher, self._log = watcher, log
        self._logs = PodLogs(client, namespace)
        self._said = ""

    def follow(self, uid: str) -> list[KubernetesObject]:
        """Until the job has completed; its pods. Raises JobFailed, or PeerError if the cluster is out of reach."""
        lost_since: float | None = None
        while True:
            try:
                job = self._client.find("PaddleJob", self._namespace, self._name)
                if job is None or job["metadata"]["uid"] != uid:
                    raise JobFailed(f"PaddleJob {self._name} was deleted by somebody else before it had ended")
                pods = pods_of(self._client, self._namespace, self._name)
                lost_since = None
            except PeerError as error:
                lost_since = lost_since or time.monotonic()
                if time.monotonic() - lost_since > _PATIENCE:
                    raise
                self._tell(str(error))
                time.sleep(_LOOK_EVERY)
                continue
            self._logs.look_at(pods)
            self._write_lines()
            status = job.get("status") or {}
            self._show(status)
            if status.get("phase") in FINISHED:
                self._logs.wait(_LOGS_END)
                self._logs.look_at(pods)
                self._logs.wait(_LOGS_END)
                self._write_lines()
                if status["phase"] == "Failed":
                    raise JobFailed(failure_text(self._name, status))
                return pods
            time.sleep(_LOOK_EVERY)

    def _show(self, status: Mapping[str, object]) -> None:
        phase, message = status.get("phase") or "Pending", status.get("message") or "no operator has seen it yet"
        self._tell(f"{phase}: {message}")
        progress = status.get("trainerStatus")
        if isinstance(progress, dict):
            percentage = progress.get("progressPercentage")
            facts = {key: progress[key] for key in ("epoch", "step", "rows") if key in progress}
            facts |= {one["name"]: one["value"] for one in progress.get("metrics") or ()}
            self._watcher.advance(share=None if percentage is None else percentage / 100, facts=facts)

    def _tell(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._watcher.say(f"{self._name}: {text}")

    def _write_lines(self) -> None:
        for line in self._logs.taken():
            text = f"{line.pod} {line.process}: {line.text}"
            self._log.write(f"{text}\n")
            self._watcher.say(text)
        self._log.flush()


def failure_text(name: str, status: Mapping[str, object]) -> str:
    """Why a job has failed: the pod that failed first, and its reason."""
    first = status.get("firstFailure")
    why = status.get("message") or "it says no reason"
    if not isinstance(first, dict):
        return f"PaddleJob {name} failed: {why}"
    code = f", exit code {first['exitCode']}" if first.get("exitCode") is not None else ""
    if str(first.get("pod")) in str(why):  # the operator names it where the number of failures has ended the job
        return f"PaddleJob {name} failed{code}: {why}"
    said = f": {first['message']}" if first.get("message") else ""
    return f"PaddleJob {name} failed: {why}; first {first.get('pod')} failed, {first.get('reason')}{code}{said}"
