"""A whole run: the workload, the plan carried out on it, and the end, at which everything must come to rest."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from support.chaos.books import Books
from support.chaos.faults import disk_faults, hostile_clients, network_faults, process_faults, twin_faults
from support.chaos.lanes import lanes
from support.chaos.plan import draw_plan, without
from support.chaos.scheduler import Scheduler
from support.chaos.workload.workload import Workload, going_on

__all__ = ["disk_faults", "hostile_clients", "network_faults", "process_faults", "twin_faults"]  # they list themselves

_POLL_EVERY = 0.05
_SHOW_EVERY = 1.0
REST_WITHIN = 240.0
"""Seconds for the last training and the last delivery, when no more faults come."""


@dataclass(frozen=True)
class Settings:
    seed: int
    minutes: float
    pace: float = 1.0
    without: dict[str, str] = field(default_factory=dict)
    """Kinds of fault to leave out, and why."""
    mounts: bool = False


def run(
    settings: Settings,
    scratch: Path,
    books: Books,
    *,
    output: Path,
    say: Callable[[str], None],
    show: Callable[[str], None],
) -> None:
    """Until the time is over or KeyboardInterrupt comes, which is passed on when everything is stopped."""
    left_out = dict(settings.without)
    if not settings.mounts:
        left_out["full disk"] = "nothing may be mounted here"
    for kind, reason in left_out.items():
        books.notes.append(f"no faults of kind '{kind}': {reason}")
    seconds = settings.minutes * 60
    plan = draw_plan(settings.seed, seconds, without(lanes(settings.pace), left_out))
    books.count(planned=len(plan))
    with going_on(scratch, books, seed=settings.seed, mounts=settings.mounts, say=say) as workload:
        say(f"{len(plan)} faults in {settings.minutes:g} minutes")
        scheduler = Scheduler(plan, workload)
        began = time.monotonic()
        try:
            scheduler.start()
            _look_after(workload, lambda: time.monotonic() - began >= seconds or not scheduler.running, show=show)
            books.event("no more faults")
            say("no more faults; waiting for the last training and delivery")
            resting = _Resting(scheduler, workload)
            resting.start()
            end = time.monotonic() + REST_WITHIN
            _look_after(workload, lambda: not resting.is_alive() or time.monotonic() > end, show=show)
            if resting.is_alive():
                books.promise_broken("everything comes to rest", f"not within {REST_WITHIN:g} s: {resting.stage}")
            resting.tell()
        finally:
            scheduler.tell_end()
            for each in workload.questioners:
                each.end()
            workload.presence.end()
            _keep_logs(scratch, output / "logs", wanted=bool(books.broken))


def _look_after(workload: Workload, over: Callable[[], bool], *, show: Callable[[str], None]) -> None:
    """Poll the suite's supervisor, and show how things are."""
    shown = 0.0
    while not over():
        workload.suite.poll()
        if time.monotonic() - shown >= _SHOW_EVERY:
            shown = time.monotonic()
            show(progress(workload.books))
        time.sleep(_POLL_EVERY)


def progress(books: Books) -> str:
    counts = books.counts
    minutes, seconds = divmod(int(books.elapsed), 60)
    return (
        f"{minutes:3d}:{seconds:02d}  {books.faults} faults  {counts['answers']:,} answers  "
        f"{counts['delivered']} versions  {counts['rows_trained']:,} rows in {counts['runs']} runs  "
        f"{len(books.broken)} broken"
    )


class _Resting(threading.Thread):
    """Ends what goes on, in order; while the suite is looked after by its own thread."""

    def __init__(self, scheduler: Scheduler, workload: Workload) -> None:
        super().__init__(name="resting", daemon=True)
        self._scheduler, self._workload = scheduler, workload
        self.stage = "faults are undone"
        self.failure = ""

    def run(self) -> None:
        try:
            self._workload.books.count(not_reached=self._scheduler.end())
            self.stage = "the last training"
            self._workload.trainings.end()
            self.stage = "the last deliveries"
            self._workload.publications.end()
            self._workload.publications.last_one()
        except BaseException as error:
            self.failure = f"{self.stage}: {error!r}"

    def tell(self) -> None:
        if self.failure:
            self._workload.books.promise_broken("everything comes to rest", self.failure)


def _keep_logs(scratch: Path, kept: Path, *, wanted: bool) -> None:
    """What the processes said, if something was wrong."""
    shutil.rmtree(kept, ignore_errors=True)
    if not wanted:
        return
    kept.mkdir(parents=True)
    for source in [*scratch.glob("state/suite/cube/logs/*.log"), *scratch.glob("twins.log")]:
        shutil.copy(source, kept / source.name)
    for run in scratch.glob("training/runs/run-*"):
        if (run / "logs").is_dir():
            shutil.copytree(run / "logs", kept / run.name)
