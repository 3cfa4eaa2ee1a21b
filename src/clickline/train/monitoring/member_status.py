"""The shape of a run's status, as status.json holds it: docs/reference/status.md explains every key."""

from __future__ import annotations

import os
import resource
import socket
from typing import NotRequired, TypedDict


class MemberStatus(TypedDict):
    """One process of a run."""

    role: str
    rank: int
    name: str
    pid: int
    host: str
    address: str
    memory_mib: float
    rows: NotRequired[int]
    steps: NotRequired[int]
    rows_per_second: NotRequired[float]
    tables: NotRequired[dict[str, int]]
    metrics: NotRequired[str]
    state: NotRequired[str]
    silent: NotRequired[float]


class CheckpointStatus(TypedDict):
    """The newest checkpoint of a run."""

    step: int
    path: str
    time: float | None
    seconds: float
    pause_seconds: float
    cuts: int


class StatusReport(TypedDict):
    """The status of a run without a coordinator."""

    time: float
    job: str
    strategy: str
    phase: str
    why: str | None
    epoch: int
    epochs: int
    progress: float | None
    seconds_left: float | None
    step: int
    rows: int
    rows_per_second: float
    loss: float | None
    auc: float | None
    rmse: float | None
    test: dict[str, float]
    generation: int
    members: list[MemberStatus]
    pieces: None
    repeated_rows: int
    lost_pushes: int
    nodes: list[object]
    """Rows by node are a coordinator's: none here."""
    retries: int
    restarts: int
    checkpoint: CheckpointStatus | None
    faults: list[str]


def own_process(rank: int) -> MemberStatus:
    """What every training process reports of itself."""
    return {
        "role": "trainer",
        "rank": rank,
        "name": f"trainer.{rank}",
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "address": "",
        "memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
