"""What can be done with a job on a Ray cluster from its record alone: its status, its logs, its end."""

from __future__ import annotations

import importlib
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from clickline.errors import ClicklineError, PeerError
from clickline.launch.job_records import JobRecord
from clickline.launch.ray.ray_cluster import NAMESPACE, RayCluster, connected

_PATIENCE = 20.0
_LOOK_EVERY = 0.2


def stop_job(record: JobRecord) -> dict[str, str]:
    """End the actors of a job, and with them its processes; by process, what came of it."""
    try:
        with connected(record.cluster) as cluster:
            return _stopped(cluster, record.job)
    except ClicklineError as error:
        return {record.cluster: str(error)}


def _stopped(cluster: RayCluster, job: str) -> dict[str, str]:
    ray = cluster.ray
    names = _actor_names(cluster, job)
    for name in names:
        with suppress(ValueError, ray.exceptions.RayError):  # it has ended meanwhile
            ray.kill(ray.get_actor(name, namespace=NAMESPACE))
    groups: Any = importlib.import_module("ray.util.placement_group")
    with suppress(ValueError, ray.exceptions.RayError):
        groups.remove_placement_group(groups.get_placement_group(job))
    until = time.monotonic() + _PATIENCE
    while (left := _actor_names(cluster, job)) and time.monotonic() < until:
        time.sleep(_LOOK_EVERY)
    if not names:
        return {cluster.address: "not running"}
    return {name.partition("/")[2]: "still there" if name in left else "stopped" for name in names}


def _actor_names(cluster: RayCluster, job: str) -> list[str]:
    """Of this job and no other."""
    named = cluster.ray.util.list_named_actors(all_namespaces=True)
    return sorted(
        entry["name"] for entry in named if entry["namespace"] == NAMESPACE and entry["name"].startswith(f"{job}/")
    )


def read_status(record: JobRecord) -> bytes:
    """The run's status.json; the coordinator writes it on the node from which the job was started."""
    path = Path(record.run_directory) / "status.json"
    try:
        return path.read_bytes()
    except OSError as error:
        raise PeerError(f"{path}: cannot be read: {error}") from None


def read_log(record: JobRecord, process: str) -> bytes:
    """What a process has written, from the log of all, which the launcher has gathered here."""
    try:
        with Path(record.log).open("rb") as log:
            lines = [_line_of(line, process.encode()) for line in log]
    except OSError as error:
        raise PeerError(f"{record.log}: cannot be read: {error}") from None
    own = [line for line in lines if line is not None]
    if not own:
        raise PeerError(f"{record.log} has no line of {process!r}")
    return b"".join(own)


def _line_of(line: bytes, process: bytes) -> bytes | None:
    """The part of a line after HOST and PROCESS, if it is of this process."""
    head, _, text = line.partition(b": ")
    words = head.split()
    return text if len(words) == 2 and words[1] == process else None
