"""status.json of a run without a coordinator: one process, or the first of several ranks.

A thread replaces the file each second, so that it is as fresh while a batch computes, a checkpoint is written or the
first file is fetched as it is between two steps. Its form is that of the coordinator's: docs/reference/status.md.
"""

from __future__ import annotations

import json
import math
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from clickline.errors import ReplacedError
from clickline.files.atomic import replace_json
from clickline.train.monitoring.final_status import leave_final_status
from clickline.train.monitoring.loop_liveness import longest_turn, silent_loop
from clickline.train.monitoring.member_status import CheckpointStatus, StatusReport, own_process
from clickline.train.monitoring.metrics_place import metrics_place
from clickline.train.monitoring.run_health import ENDED, complaints_of
from clickline.train.monitoring.run_progress import RunProgress
from clickline.train.run_files.run_lock import RunLock

if TYPE_CHECKING:
    from clickline.config import Job
    from clickline.train.loop.run import Run
    from clickline.train.loop.run_checkpoints import SavedCheckpoint
    from clickline.train.monitoring.metrics_server import MetricsServer

STATUS = "status.json"
_EVERY = 1.0


class RunStatus:
    """Writes the status of one run from `with` to its end, which it classifies by what was raised."""

    def __init__(self, job: Job, *, lock: RunLock) -> None:
        self._job, self._lock = job, lock
        self._run: Run | None = None
        self._progress = RunProgress(epochs=job.train.epochs, max_steps=job.train.max_steps)
        self._phase = "gathering"
        self._why: str | None = None
        self._metrics: MetricsServer | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write_on, name="clickline-status", daemon=True)

    def __enter__(self) -> RunStatus:
        place = metrics_place(self._job, role="trainer", rank=0)
        if place is not None:
            from clickline.train.monitoring.metrics_server import MetricsServer
            from clickline.train.monitoring.prometheus_metrics import Labelled, run_metrics

            self._metrics = MetricsServer(
                place,
                labels=Labelled(run=self._job.name, role="trainer", rank="0"),
                families=lambda make: run_metrics(make, self.report()),
                complaints=lambda: list(complaints_of(self.report())),
                status=self.report,
                not_live=lambda: training_hangs(self._job, self._run),
                not_ready=lambda: training_not_begun(self._run),
            )
        self.write()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The thread is joined first: one more write of its own would otherwise replace the last status.
        self._ended.set()
        self._thread.join()
        self._phase, self._why = _ending(error)
        if self._metrics is not None:
            self._metrics.close()
        self.write()
        leave_final_status(self.report())

    def follow(self, run: Run) -> None:
        """Report this run from now on; before, the status only says that it is being prepared."""
        self._run = run

    def report(self) -> StatusReport:
        """The status as it is now."""
        report = self._report()
        if self._metrics is not None:
            report["members"][0]["metrics"] = self._metrics.address
        return report

    def _report(self) -> StatusReport:
        # The status thread and threads of the metrics server call this without a lock while the training thread goes
        # on, so figures may be of two neighbouring steps.
        run, over = self._run, self._phase in ENDED
        report: StatusReport = {
            "time": time.time(),
            "job": self._job.name,
            "strategy": self._job.resolved_strategy,
            "phase": self._phase if over or run is None else run.phase,
            "why": self._why,
            "epoch": 0,
            "epochs": self._job.train.epochs,
            "progress": 0.0,
            "seconds_left": None,
            "step": 0,
            "rows": 0,
            "rows_per_second": 0.0,
            "loss": None,
            "auc": None,
            "rmse": None,
            "test": {},
            "generation": 1,
            "members": [],
            "pieces": None,
            "repeated_rows": 0,
            "lost_pushes": 0,
            "nodes": [],
            "retries": 0,
            "restarts": 0,
            "checkpoint": None,
            "faults": [],
        }
        if run is None:
            report["members"] = [{**own_process(0), "state": "done" if over else "joining", "silent": 0.0}]
            return report
        silent = 0.0 if over else round(max(0.0, time.monotonic() - run.progress_at), 1)
        member_state = "done" if over else "slow" if silent > self._job.cluster.warn_after else "well"
        # Read once: the training thread replaces the interval after each line of metrics; the list itself only grows.
        losses = run.state.interval.losses
        report["epoch"], report["step"] = run.state.epoch, run.learner.step
        report["rows"], report["rows_per_second"] = run.state.position.rows, round(run.state.interval.rate, 1)
        position = run.state.position
        report["progress"], report["seconds_left"] = self._progress.of(
            epochs_done=position.epoch,
            share=run.epoch_share,
            steps=run.learner.step - position.first_step,
            finished=self._phase == "finished",
        )
        report["loss"] = losses[-1] if losses else None
        report["auc"] = run.state.validation_figures.get("auc")
        report["rmse"] = run.state.validation_figures.get("rmse")
        report["test"] = run.test_figures
        report["members"] = [{**member, "state": member_state, "silent": silent} for member in run.members()]
        report["checkpoint"] = _checkpoint_status(run.checkpoints.newest)
        return report

    def write(self) -> None:
        """Replace the file, unless another process has the directory by now."""
        with suppress(OSError, ReplacedError):  # a full disk must not end a run for the sake of its status
            # A process that was replaced leaves the file to its successor; the training loop finds out by itself.
            self._lock.check()
            replace_json(self._lock.directory / STATUS, self.report(), synced=False)

    def _write_on(self) -> None:
        while not self._ended.wait(_EVERY):
            self.write()


def training_hangs(job: Job, run: Run | None) -> list[str]:
    """A sentence if the training loop of a process without servers has stood still for too long."""
    if run is None or run.progress_at == math.inf:
        return []
    limit = longest_turn(job.cluster.retry_for)
    return silent_loop("the training loop", run.progress_at, limit=limit, now=time.monotonic())


def training_not_begun(run: Run | None) -> list[str]:
    """A sentence if a process is still being prepared."""
    return ["training has not begun"] if run is None or run.phase == "gathering" else []


def _checkpoint_status(newest: SavedCheckpoint) -> CheckpointStatus | None:
    if newest.path is None:
        return None
    try:
        written = newest.path.stat().st_mtime
    except OSError:  # somebody has removed it
        written = None
    seconds = round(newest.seconds, 3)
    return {
        "step": int(newest.path.name.rpartition("-")[2]),
        "path": str(newest.path),
        "time": written,
        "seconds": seconds,
        "pause_seconds": seconds,
        "cuts": newest.count,
    }


def end_status(lock: RunLock, error: BaseException) -> None:
    """For a launcher whose ranks are gone: end the status if the rank that writes it could not."""
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
    """Why the run of a directory ended, if its status has a reason."""
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
