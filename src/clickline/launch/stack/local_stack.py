"""`clickline.up`: from a job to predictions on this machine, and everything that serves them.

    data → training → a version → file server, transfer, cube → predictor → its predictions, measured

The stages before the suite are in `stack_stages`, the processes in `suite`, what they come to in `stack_report`.
Progress is reported by events (`stack_events`); nothing here prints.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from clickline.config import Job
from clickline.launch.stack import stack_stages
from clickline.launch.stack.stack_events import (
    DeliveryProblem,
    DeliveryProgress,
    Emit,
    EventWatcher,
    ProcessStarted,
    Stage,
    VersionSwitched,
    reported,
)
from clickline.launch.stack.stack_report import StackReport, measure_stack
from clickline.launch.suite import PORT, Suite, checked_size
from clickline.launch.suite_description import MODEL, REPLICAS, SHARDS, WORKERS, SuiteDescription
from clickline.launch.suite_state import claimed, supervisor_record, write_suite
from clickline.processes.heartbeats.heartbeat_monitor import STALL_AFTER
from clickline.processes.process_events import ProcessChange, ProcessEvent
from clickline.progress import LogOnly
from clickline.serve.serve_settings import read_suite_config
from clickline.versions.store import open_store

DEMO_ROWS = 250_000
_POLL_EVERY = 0.05
_VERSION_EVERY = 1.0
"""Seconds between looks at which version is in service, while the stack is waited for."""


class LocalStack:
    """Everything that `up` has started. A context manager: nothing is left running afterwards.

    Use it from the thread that called `up`, and call `poll` now and then, or `wait`: a process that dies is started
    again by that.
    """

    def __init__(self, suite: Suite, report: StackReport, *, emit: Emit, exits: ExitStack) -> None:
        self.suite, self.report = suite, report
        self._emit, self._exits = emit, exits

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop all processes and let go of the state directory. May be called again."""
        self._exits.close()

    def poll(self) -> None:
        """Look after all processes once. Raises PeerError when things cannot go on."""
        self.suite.poll()

    def wait(self) -> None:
        """Look after the processes until KeyboardInterrupt, and report each version that comes into service."""
        serving = self.suite.cube.serving()
        # Asked in a thread of its own: transfer may hang, and it is this thread that must notice.
        with ThreadPoolExecutor(1, thread_name_prefix="version") as threads:
            asked_at, answer = time.monotonic(), threads.submit(self.suite.cube.serving)
            while True:
                self.poll()
                if answer.done() and time.monotonic() - asked_at > _VERSION_EVERY:
                    now = answer.result()
                    if now and now != serving:
                        self._emit(VersionSwitched(now, serving))
                        serving = now
                    asked_at, answer = time.monotonic(), threads.submit(self.suite.cube.serving)
                time.sleep(_POLL_EVERY)


def up(
    job: str | Path | Job | None = None,
    *,
    state: str | Path = "runs",
    overrides: Sequence[str] = (),
    rows: int = DEMO_ROWS,
    port: int = PORT,
    shards: int = SHARDS,
    replicas: int = REPLICAS,
    workers: int = WORKERS,
    stall_after: float = STALL_AFTER,
    serve: str | Path | None = None,
    fresh: bool = False,
    on_event: Emit | None = None,
) -> LocalStack:
    """Train, publish, deliver and serve on this machine; returns when it serves and its predictions were measured.

        with clickline.up("job.yaml") as stack:
            print(stack.report.http, stack.report.served)
            stack.wait()

    `job` is a job file, a Job, or None for demo data of so many `rows`. `overrides` are KEY=VALUE, as for --set. `port`
    is the predictor's, if it is free. The cube has so many `shards` with so many `replicas` each, the predictor so many
    `workers`. `serve` is a serve.yaml for the predictor, to which the stack's own model is
    added. Called again, it goes on from what the state directory holds; `fresh` throws that away.

    `on_event` is called with a `StackEvent` for everything worth seeing. Call `up` from a thread that lives as long as
    the stack.
    """
    began, started, directory = time.monotonic(), time.time(), Path(state)
    emit: Emit = on_event or (lambda _: None)
    watcher = LogOnly() if on_event is None else EventWatcher(on_event)
    config = None if serve is None else Path(serve)
    checked_size(shards=shards, replicas=replicas, workers=workers)
    with ExitStack() as exits:
        # First: a second call for this state directory is refused before it makes data, trains or discards anything.
        exits.enter_context(claimed(directory))

        @contextmanager
        def stage(which: Stage) -> Iterator[None]:
            # Until the suite writes it itself, suite.json says what goes on to those who ask, or want to stop us.
            if which in (Stage.DATA, Stage.TRAINING, Stage.PUBLISHING):
                phase = {"phase": which.value, "http": None, "components": []}
                write_suite(directory, {**supervisor_record(started=started), **phase})
            with reported(which, emit):
                yield

        if config is not None:  # what is wrong with it is said before anything is trained
            read_suite_config(config, model=MODEL, store=str(directory / "versions"), layouts="not-written-yet")
        best, settings = None, []
        if job is None:
            with stage(Stage.DATA):
                job, best = stack_stages.demo_data(directory, rows, emit=emit)
            settings = [f"{key}={value}" for key, value in stack_stages.DEMO.items()]
        resolved = stack_stages.read_stack_job(job, state=directory, settings=settings, overrides=overrides, emit=emit)
        if fresh:
            stack_stages.discard(directory, emit=emit)
        with stage(Stage.TRAINING):
            run = stack_stages.train(resolved, fresh=fresh, watcher=watcher, emit=emit)
        with stage(Stage.PUBLISHING):
            manifest = stack_stages.publish(run, open_store(directory / "versions"), watcher=watcher, emit=emit)
        suite = Suite(
            directory,
            port=port,
            shards=shards,
            replicas=replicas,
            workers=workers,
            stall_after=stall_after,
            serve=config,
            on_event=_StartCounter(emit, expected=SuiteDescription(shards=shards, replicas=replicas).process_count),
        )
        with stage(Stage.STARTING):
            exits.enter_context(suite)
        with stage(Stage.DELIVERING):
            _deliver(suite, manifest.version, emit)
        with stage(Stage.FIRST_VERSION):
            suite.until(lambda: bool(suite.http), what="the predictor's first complete version")
        report = measure_stack(suite, resolved, run, manifest, state=state, best=best, began=began, emit=emit)
        # From here on the stack owns the processes and the claim; any error before has ended both.
        return LocalStack(suite, report, emit=emit, exits=exits.pop_all())


class _StartCounter:
    """Counts the processes that a suite starts; other events of its supervisor go on as they are."""

    def __init__(self, emit: Emit, *, expected: int) -> None:
        self._emit, self._expected, self._started = emit, expected, 0

    def __call__(self, event: ProcessEvent) -> None:
        if event.change is ProcessChange.JOINED:
            self._started += 1
            self._emit(ProcessStarted(event.process, self._started, self._expected))
        else:
            self._emit(event)


def _deliver(suite: Suite, version: int, emit: Emit) -> None:
    """Wait until the cube serves the version."""
    problems = {""}

    def is_delivered() -> bool:
        status = suite.cube.status()
        # Transfer that does not answer has no list of servers yet: the share is then of those that were started.
        servers = status.servers or suite.cube.shards * suite.cube.replicas
        emit(DeliveryProgress(version, servers, status.downloaded, status.loaded, status.switched))
        if status.problem not in problems:  # each is worth one line, not one at every look
            problems.add(status.problem)
            emit(DeliveryProblem(status.problem))
        return status.has_delivered(version)

    suite.until(is_delivered, what=f"the delivery of version {version}", every=0.1)
