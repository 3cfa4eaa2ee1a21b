"""A run's status, as the coordinator writes it each second. docs/reference/status.md is about its shape."""

from __future__ import annotations

import os
import resource
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clickline.ps.coordinator.failures import Deaths


def status_of(affairs: Deaths) -> dict[str, Any]:
    """Everything that can be said; the caller holds the lock."""
    standing, book = affairs.standing, affairs.book
    rate, loss = affairs.intervals.rate, affairs.intervals.loss
    return {
        "time": time.time(),
        "job": affairs.job.name,
        "strategy": affairs.job.way,
        "phase": standing.phase,
        "why": affairs.stopping if standing.phase in ("failed", "interrupted") else None,
        "epoch": standing.epoch + (standing.book is not None),
        "epochs": affairs.job.train.epochs,
        "step": standing.step,
        "rows": standing.rows,
        "rows_per_second": round(rate, 1),
        "loss": loss,
        "auc": standing.valid.get("auc"),
        "test": standing.test,
        "generation": standing.generation,
        "members": [_coordinator(affairs), *affairs.roster.to_list()],
        "pieces": {
            "done": book.done,
            "active": len(book.active),
            "left": book.remaining,
            "set_aside": standing.set_aside + affairs.set_aside(),
        },
        "repeated_rows": standing.repeated_rows + book.repeated_rows,
        "lost_pushes": affairs.lost_pushes(),
        "retries": affairs.retries(),
        "restarts": affairs.roster.restarts,
        "checkpoint": None if standing.checkpoint is None else _checkpoint(affairs, Path(standing.checkpoint)),
        "faults": standing.faults[-20:],
    }


def _checkpoint(affairs: Deaths, path: Path) -> dict[str, Any]:
    standing = affairs.standing
    step = path.name.rpartition("-")[2]
    try:
        written = path.stat().st_mtime
    except OSError:  # somebody has taken it away
        written = None
    return {
        "step": int(step) if step.isdigit() else None,
        "path": str(path),
        "time": written,
        "seconds": round(standing.cut_seconds, 3),
        "pause_seconds": round(standing.pause_seconds, 3),
        "cuts": standing.cuts,
    }


def _coordinator(affairs: Deaths) -> dict[str, Any]:
    facts = {
        "role": "coordinator",
        "rank": 0,
        "name": "coordinator.0",
        "state": "done" if affairs.stopping is not None else "well",
        "silent": 0.0,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "address": affairs.address,
        "memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    return {**facts, "metrics": affairs.metrics} if affairs.metrics else facts
