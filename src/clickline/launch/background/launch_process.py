"""The launcher of one job, in a process of its own: python -m clickline.launch.background.launch_process

reads an order from standard input and reports on standard output. Nobody need listen to it: the job has a record, by
which it is found and stopped.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from clickline.errors import ClicklineError
from clickline.files.typed_json import decode_json
from clickline.launch.background.launch_order import (
    EventReporter,
    LaunchEnded,
    LaunchFailed,
    LaunchOrder,
    LaunchStarted,
)
from clickline.launch.job_records import read_record
from clickline.launch.launchers import LaunchOptions, launch
from clickline.processes.child import stopped_by_signals

_INTERRUPTED = 130


def options_of(order: LaunchOrder, reporter: EventReporter) -> LaunchOptions:
    """As a launcher takes them; it reports the job's record when all hosts are reached."""
    return LaunchOptions(
        workspace=Path(order.workspace),
        archive=order.archive,
        manifests=order.manifests,
        resume=order.resume,
        fresh=not order.resume,
        warm_start="" if order.resume else order.warm_start,
        watcher=reporter,
        job=order.job,
        steps=order.steps,
        on_start=lambda: reporter.send(LaunchStarted(read_record(order.job))),
    )


def launched_result(order: LaunchOrder, reporter: EventReporter) -> dict[str, Any]:
    """Launch the job and wait for its end."""
    if order.launcher == "local":
        # Training loads PyTorch, which launchers to other hosts do not need.
        from clickline.launch.background.local_launch import launch_here  # noqa: PLC0415

        return launch_here(order.checked_job, options_of(order, reporter))
    if order.launcher == "mpi":
        from clickline.launch.mpi.mpirun_launch import launch_by_mpirun  # noqa: PLC0415

        return launch_by_mpirun(order, reporter)
    result = launch(order.checked_job, on=order.launcher, options=options_of(order, reporter))
    return {} if result is None else result.to_dict()


def reporting(reporter: EventReporter, work: Callable[[], dict[str, Any]]) -> int:
    """Do the work of a launcher, and report how it ended; the exit code."""
    # Whoever started this may have had Ctrl+C ignored, as a shell does for what it runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with stopped_by_signals():
            reporter.send(LaunchEnded(work()))
    except ClicklineError as error:
        reporter.send(LaunchFailed(str(error), error.exit_code))
        return error.exit_code
    except KeyboardInterrupt as error:
        reporter.send(LaunchFailed(str(error) or "interrupted", _INTERRUPTED))
        return _INTERRUPTED
    return 0


def own_output() -> BinaryIO:
    """Standard output for reports alone: whatever else is printed goes to standard error."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return out


def main() -> int:
    reporter = EventReporter(own_output())
    order = decode_json(sys.stdin.buffer.readline(), LaunchOrder)
    return reporting(reporter, lambda: launched_result(order, reporter))


if __name__ == "__main__":
    sys.exit(main())
