"""A job in a cluster, followed to its end: what its status says, how far its run is, what its pods write."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TextIO

from clickline.errors import ClicklineError, PeerError
from clickline.launch.kubernetes.cluster_checks import FINISHED
from clickline.launch.kubernetes.cluster_client import ClusterClient
from clickline.launch.kubernetes.pod_logs import PodLogs, pods_of
from clickline.operator.job.fields import KubernetesObject
from clickline.operator.objects.start_blocker import BlockerKind
from clickline.operator.reconcile.phases import START_BLOCKED
from clickline.progress import Watcher

_LOOK_EVERY = 1.0
_LOGS_END = 5.0
_PATIENCE = 300.0
"""Seconds for which the API server may stay away: the job does not need us."""

_TO_BE_MENDED: tuple[BlockerKind, ...] = ("ImageNotAvailable", "ContainerNotCreated")
"""A node that has room for the pods may come by itself; these do not."""


class JobFailed(ClicklineError):
    """The job has failed in the cluster."""


class JobNotStarted(PeerError):
    """Pods of the job cannot start, for a reason that does not go away by itself."""


class JobMonitor:
    """Follows one PaddleJob."""

    def __init__(
        self, client: ClusterClient, namespace: str, name: str, *, start_timeout: float, watcher: Watcher, log: TextIO
    ) -> None:
        """`start_timeout`: seconds for which pods may be kept from starting by something that must be mended."""
        self._client, self._namespace, self._name = client, namespace, name
        self._watcher, self._log, self._start_timeout = watcher, log, start_timeout
        self._blocked_since: float | None = None
        self._logs = PodLogs(client, namespace)
        self._said = ""

    def follow(self, uid: str) -> list[KubernetesObject]:
        """Until the job has completed; its pods.

        Raises JobFailed, JobNotStarted, or another PeerError if the cluster is out of reach.
        """
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
            self._check_start(status)
            if status.get("phase") in FINISHED:
                self._logs.wait(_LOGS_END)
                self._logs.look_at(pods)
                self._logs.wait(_LOGS_END)
                self._write_lines()
                if status["phase"] == "Failed":
                    raise JobFailed(failure_text(self._name, status))
                return pods
            time.sleep(_LOOK_EVERY)

    def _check_start(self, status: Mapping[str, Any]) -> None:
        """Give up a job that somebody has to mend first. One that has run goes on: other nodes may have the image."""
        conditions = [one for one in status.get("conditions") or () if one.get("type") == START_BLOCKED]
        blocked: Mapping[str, Any] = next((one for one in conditions if one.get("status") == "True"), {})
        if status.get("startTime") or blocked.get("reason") not in _TO_BE_MENDED:
            self._blocked_since = None
            return
        # By our clock: that of the cluster, in the condition, may be another.
        self._blocked_since = self._blocked_since or time.monotonic()
        if time.monotonic() - self._blocked_since > self._start_timeout:
            raise JobNotStarted(
                f"PaddleJob {self._name} has not started within {self._start_timeout:g} s (cluster.start_timeout): "
                f"{blocked.get('message')}"
            )

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
