"""A run's status as the coordinator writes it each second. docs/reference/status.md describes its shape."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from clickline.errors import ReplacedError
from clickline.files.atomic import replace_json
from clickline.ps.coordinator.state.members import MemberState
from clickline.ps.coordinator.state.run_state import RunState
from clickline.ps.protocol.work_messages import Action
from clickline.train.monitoring.run_progress import RunProgress

STATUS = "status.json"
_WRITE_EVERY = 1.0
Status = dict[str, Any]
"""As JSON: it is read by programs of any language."""


def run_status(state: RunState, *, address: str, metrics_address: str, progress: RunProgress) -> Status:
    """The status of a run; the caller has the lock. The addresses are the coordinator's own."""
    record, table = state.record, state.leases.table
    done, seconds_left = progress.of(
        epochs_done=record.epoch,
        # What is offered may be pieces of the validation data, which stands between two epochs.
        share=state.leases.share_done if state.leases.offered == Action.TRAIN else 0.0,
        steps=record.step - record.first_step,
        finished=record.phase == "finished",
    )
    stop_reason = state.lifecycle.stop_reason
    lost_pushes, retries = state.losses()
    return {
        "time": time.time(),
        "job": state.job.name,
        "strategy": state.job.resolved_strategy,
        "phase": record.phase,
        "why": stop_reason if record.phase in ("failed", "interrupted") else None,
        "epoch": record.epoch + (record.book is not None),
        "epochs": state.job.train.epochs,
        "progress": done,
        "seconds_left": seconds_left,
        "step": record.step,
        "rows": record.rows,
        "rows_per_second": round(state.windows.window.rate, 1),
        "loss": state.windows.window.loss,
        "auc": record.valid.get("auc"),
        "rmse": record.valid.get("rmse"),
        "test": record.test,
        "generation": record.generation,
        "members": [
            _coordinator(address, metrics_address, done=stop_reason is not None),
            *state.members.to_status(),
        ],
        "pieces": {
            "done": table.done,
            "active": len(table.active),
            "left": table.remaining,
            "holders": sorted({held.holder.split()[0] for held in table.active}),
            "set_aside": record.set_aside + state.leases.set_aside(),
        },
        "nodes": msgspec.to_builtins(state.data.node_rows(state.leases.of_epoch)),
        "repeated_rows": record.repeated_rows + table.repeated_rows,
        "lost_pushes": lost_pushes,
        "retries": retries,
        "restarts": state.members.restarts,
        "checkpoint": None if record.checkpoint is None else _checkpoint(state, Path(record.checkpoint)),
        "faults": record.faults[-20:],
    }


def _checkpoint(state: RunState, path: Path) -> dict[str, object]:
    record = state.record
    step = path.name.rpartition("-")[2]
    try:
        written = path.stat().st_mtime
    except OSError:  # somebody has taken it away
        written = None
    return {
        "step": int(step) if step.isdigit() else None,
        "path": str(path),
        "time": written,
        "seconds": round(record.cut_seconds, 3),
        "pause_seconds": round(record.pause_seconds, 3),
        "cuts": record.cuts,
    }


def _coordinator(address: str, metrics_address: str, *, done: bool) -> dict[str, object]:
    """The coordinator's own entry among the members."""
    entry: dict[str, object] = {
        "role": "coordinator",
        "rank": 0,
        "name": "coordinator.0",
        "state": (MemberState.DONE if done else MemberState.WELL).value,
        "silent": 0.0,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "address": address,
        "memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    return {**entry, "metrics": metrics_address} if metrics_address else entry


class StatusFile:
    """Writes status.json, at most once a second unless told otherwise."""

    def __init__(self, state: RunState, *, status: Callable[[], Status]) -> None:
        self._state, self._status = state, status
        self._written = 0.0

    def write_if_due(self) -> None:
        if time.monotonic() - self._written > _WRITE_EVERY:
            self.write()

    def write(self) -> None:
        if self._state.lifecycle.superseded is not None:
            return
        self._written = time.monotonic()
        status = self._status()
        with suppress(OSError, ReplacedError):  # a full disk must not end a run for the sake of its status
            self._state.record_file.check_holder()
            replace_json(self._state.directory / STATUS, status, synced=False)
