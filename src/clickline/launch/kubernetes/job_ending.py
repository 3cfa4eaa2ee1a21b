"""The end of a job in a cluster before its time: its processes write a checkpoint, and nothing of it is left."""

from __future__ import annotations

import time

from clickline.launch.kubernetes.cluster_client import ClusterClient, ClusterRefusal
from clickline.launch.kubernetes.pod_logs import pods_of

_PATIENCE = 60.0
_LOOK_EVERY = 0.2


def end_job(client: ClusterClient, namespace: str, name: str) -> str:
    """Stop the pods of a PaddleJob, then delete it and its files; what came of it."""
    job = client.find("PaddleJob", namespace, name)
    if job is None:
        _delete_files(client, namespace, name)
        return "not running"
    # Suspended first: the operator deletes the pods then, and as long as the job is there it is known to be stopping.
    try:
        client.merge("PaddleJob", namespace, name, {"spec": {"suspend": True}})
    except ClusterRefusal as error:
        if not error.is_missing:
            raise
    until = time.monotonic() + _PATIENCE
    left = pods_of(client, namespace, name)
    # Pods of a job that has ended are there for their results, and do not end by being waited for.
    finished = (job.get("status") or {}).get("phase") in ("Completed", "Failed")
    while left and not finished and time.monotonic() < until:
        time.sleep(_LOOK_EVERY)
        left = pods_of(client, namespace, name)
    client.delete("PaddleJob", namespace, name, uid=job["metadata"]["uid"])
    _delete_files(client, namespace, name)
    if left and not finished:
        return f"deleted; {len(left)} pods were still there, which Kubernetes deletes with it"
    return "stopped" if not finished else "deleted, it had ended"


def _delete_files(client: ClusterClient, namespace: str, name: str) -> None:
    client.delete("ConfigMap", namespace, f"{name}-files")
