"""What can be done with a job in a cluster from its record alone: its status, its logs, its end."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from clickline.errors import ClicklineError, PeerError
from clickline.launch.job_records import JobRecord
from clickline.launch.kubernetes.cluster_access import find_cluster
from clickline.launch.kubernetes.cluster_client import ClusterClient
from clickline.launch.kubernetes.job_ending import end_job
from clickline.launch.kubernetes.job_monitor import failure_text
from clickline.launch.kubernetes.pod_logs import pods_of, process_of

_PHASES = {"Completed": "finished", "Failed": "failed", "Suspended": "interrupted", "Running": "training"}


def stop_job(record: JobRecord) -> dict[str, str]:
    """End the pods of a job and delete it; by job, what came of it."""
    namespace, name = _place(record)
    try:
        with _client(record) as client:
            return {record.hosts[0].host: end_job(client, namespace, name)}
    except ClicklineError as error:
        return {record.hosts[0].host: str(error)}


def read_status(record: JobRecord) -> bytes:
    """What the PaddleJob's status says, in the words of a run's status.json. Raises PeerError."""
    namespace, name = _place(record)
    with _client(record) as client:
        job = client.find("PaddleJob", namespace, name)
    if job is None:
        raise PeerError(f"there is no PaddleJob {name} in namespace {namespace} any more")
    return json.dumps(_status(record, job.get("status") or {})).encode()


def read_log(record: JobRecord, process: str) -> bytes:
    """The log of a pod, from the cluster. Raises PeerError."""
    namespace, name = _place(record)
    with _client(record) as client:
        pods = {process_of(pod): pod["metadata"]["name"] for pod in pods_of(client, namespace, name)}
        if process not in pods:
            raise PeerError(f"{name} has no pod of {process!r}; it has {', '.join(sorted(pods)) or 'none'}")
        with client.lines(namespace, pods[process]) as lines:
            return "".join(f"{line}\n" for line in lines).encode()


def _status(record: JobRecord, status: Mapping[str, Any]) -> dict[str, Any]:
    progress = status.get("trainerStatus") or {}
    phase = status.get("phase") or "Pending"
    shown: dict[str, Any] = {
        "job": record.name,
        "phase": _PHASES.get(phase, phase.lower()),
        "strategy": status.get("mode") or "",
        "time": time.time(),  # of now: the operator keeps the status, and would say if it could not
        "why": failure_text(_place(record)[1], status) if phase == "Failed" else status.get("message"),
        "restarts": status.get("restarts", 0),
    }
    shown |= {key: progress[key] for key in ("epoch", "epochs", "step", "rows") if key in progress}
    return shown | {one["name"]: float(one["value"]) for one in progress.get("metrics") or () if _number(one)}


def _number(metric: Mapping[str, Any]) -> bool:
    try:
        return metric.get("name") in ("auc", "loss", "rmse", "rows_per_second") and float(metric["value"]) >= 0
    except (KeyError, ValueError):
        return False


def _place(record: JobRecord) -> tuple[str, str]:
    namespace, _, name = record.hosts[0].host.partition("/")
    return namespace, name


def _client(record: JobRecord) -> ClusterClient:
    access = find_cluster()
    # Another cluster may have a job of the same name, which must not be stopped in place of this one.
    if access.server != record.cluster:
        raise PeerError(
            f"{record.job} runs in the cluster {record.cluster}, and {access.source} leads to {access.server}: set "
            "KUBECONFIG, or its current-context, to that cluster"
        )
    return ClusterClient(access)
