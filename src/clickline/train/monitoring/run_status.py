"""status.json of a run without a coordinator: one process, or the first of several ranks.

A thread replaces the file each second, so that it is as fresh while a batch computes, a checkpoint is written or the
first file is fetched as it is between two steps. Its form is that of the coordinator's: docs/reference/status.md.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from clickline.config import Job
from clickline.errors import ReplacedError
from clickline.files.atomic import replace_json
from clickline.train.monitoring.metrics_server import MetricsServer, metrics_place
from clickline.train.monitoring.prometheus_metrics import Labelled, run_metrics
from clickline.train.monitoring.run_health import complaints_of
from clickline.train.run_files.run_lock import RunLock

if TYPE_CHECKING:
    from clickline.train.run import Run

STATUS = "status.json"
ENDED = ("finished", "failed", "interrupted")
"""Phases after which nobody writes the status any more."""
_EVERY = 1.0


@dataclass
class Saved:
    """The last checkpoint, and how many this process has written."""

    path: Path | None = None
    seconds: float = 0.0
    """How long it took; training stands still meanwhile."""
    count: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As a status says it."""
        if self.path is None:
            return {}
        try:
            written = self.path.stat().st_mtime
        except OSError:  # somebody has removed it
            written = None
        seconds = round(self.seconds, 3)
        return {
            "step": int(self.path.name.rpartition("-")[2]),
            "path": str(self.path),
            "time": written,
            "seconds": seconds,
            "pause_seconds": seconds,
            "cuts": self.count,
        }


class RunStatus:
    """Writes the status of one run from `with` to its end, which it classifies by what was raised."""

    def __init__(self, job: Job, *, lock: RunLock) -> None:
        self._job, self._lock = job, lock
        self._run: Run | None = None
        self._phase = "gathering"
        self._why: str | None = None
        self._metrics: MetricsServer | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write_on, name="clickline-status", daemon=True)

    def __enter__(self) -> RunStatus:
        place = metrics_place(self._job, role="trainer", rank=0)
        if place is not None:
            self._metrics = MetricsServer(
                place,
                labels=Labelled(run=self._job.name, role="trainer", rank="0"),
                families=lambda make: run_metrics(make, self.facts()),
                complaints=lambda: list(complaints_of(self.facts())),
                status=self.facts,
            )
        self.write()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._phase, self._why = _ending(error)
        if self._metrics is not None:
            self._metrics.close()
        self.write()

    def follow(self, run: Run) -> None:
        """Tell of this run from now on; before, there is nothing to tell but that it is being prepared."""
        self._run = run

    def facts(self) -> dict[str, Any]:
        """The status as it is now."""
        facts = self._facts()
        if self._metrics is not None:
            facts["members"][0]["metrics"] = self._metrics.address
        return facts

    def _facts(self) -> dict[str, Any]:
        run, over = self._run, self._phase in ENDED
        facts: dict[str, Any] = {
            "time": time.time(),
            "job": self._job.name,
            "strategy": self._job.resolved_strategy,
            "phase": self._phase if over or run is None else run.phase,
            "why": self._why,
            "epoch": 0,
            "epochs": self._job.train.epochs,
            "step": 0,
            "rows": 0,
            "rows_per_second": 0.0,
            "loss": None,
            "auc": None,
            "test": {},
            "generation": 1,
            "members": [],
            "pieces": None,
            "repeated_rows": 0,
            "lost_pushes": 0,
            "retries": 0,
            "restarts": 0,
            "checkpoint": None,
            "faults": [],
        }
        if run is None:
            facts["members"] = [{**own_process(0), "state": "done" if over else "joining", "silent": 0.0}]
            return facts
        silent = 0.0 if over else round(max(0.0, time.monotonic() - run.progress_at), 1)
        state = "done" if over else "slow" if silent > self._job.cluster.warn_after else "well"
        losses = run.interval.losses
        facts |= {
            "epoch": run.epoch,
            "step": run.learner.step,
            "rows": run.standing.rows,
            "rows_per_second": round(run.interval.rate, 1),
            "loss": losses[-1] if losses else None,
            "auc": run.valid_figures.get("auc"),
            "test": run.tested,
            "members": [{**member, "state": state, "silent": silent} for member in run.members()],
            "checkpoint": run.saved.to_dict() if run.saved.path is not None else None,
        }
        return facts

    def write(self) -> None:
        """Replace the file, unless another process has the directory by now."""
        with suppress(OSError, ReplacedError):  # a full disk must not end a run for the sake of its status
            self._lock.check()
            replace_json(self._lock.directory / STATUS, self.facts(), synced=False)

    def _write_on(self) -> None:
        while not self._ended.wait(_EVERY):
            self.write()


def own_process(rank: int) -> dict[str, Any]:
    """What a process that trains says of itself, whatever it trains."""
    return {
        "role": "trainer",
        "rank": rank,
        "name": f"trainer.{rank}",
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "address": "",
        "memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def end_status(lock: RunLock, error: BaseException) -> None:
    """For a launcher whose ranks are gone: say so in the status if the rank that writes it could not."""
    with suppress(OSError, ValueError, ReplacedError):
        lock.check()
        file = lock.directory / STATUS
        facts = json.loads(file.read_bytes())
        if isinstance(facts, dict) and facts.get("phase") not in ENDED:
            phase, why = _ending(error)
            gone = [{**member, "state": "dead"} for member in facts.get("members", [])]
            ended = {"time": time.time(), "phase": phase, "why": why, "members": gone}
            replace_json(file, {**facts, **ended}, synced=False)


def reason_of(directory: Path) -> str:
    """Why the run that has its status here ended, if it says so."""
    with suppress(OSError, ValueError, AttributeError):
        return json.loads((directory / STATUS).read_bytes()).get("why") or ""
    return ""


def _ending(error: BaseException | None) -> tuple[str, str | None]:
    """The last phase of a run, and why it is that one."""
    if error is None:
        return "finished", None
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", str(error) or None
    return "failed", f"{type(error).__name__}: {error}"
