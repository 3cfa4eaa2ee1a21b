"""`clickline stop`: ends a job, here or on other hosts, and nothing but this job."""

from __future__ import annotations

import os
import signal
import time
from typing import Annotated

import typer

from clickline.cli.shared.output import AsJson, print_json, say

_PATIENCE = 60.0


def stop(
    job: Annotated[str, typer.Argument(metavar="JOB", help="As `clickline jobs` lists it, or the name of its run.")],
    as_json: AsJson = False,
) -> None:
    """Stop a job that was started from here. A checkpoint is written first, as after Ctrl+C.

    A job whose launcher is gone is stopped on each of its hosts; other jobs there are left alone.

    Example: clickline stop JOB20260131120000-1a2b
    """
    from clickline.launch.job_records import JobPhase, check_machine, read_record, write_record
    from clickline.launch.launchers import job_actions

    record = read_record(job)
    check_machine(record)
    outcome: dict[str, str] = {}
    if record.phase_now == JobPhase.RUNNING:
        os.kill(record.pid, signal.SIGINT)
        until = time.monotonic() + _PATIENCE
        while read_record(record.job).phase_now == JobPhase.RUNNING and time.monotonic() < until:
            time.sleep(0.2)
        outcome["launcher"] = "stopped"
    # Also after that: a host that was cut off when its launcher ended may be back by now.
    outcome |= job_actions(record).stop_job(record)
    record = read_record(record.job)
    if record.phase == JobPhase.RUNNING:
        record.phase, record.ended, record.reason = JobPhase.STOPPED, time.time(), "clickline stop"
        write_record(record)
    if as_json:
        print_json({"job": record.job, "phase": record.phase_now.value, "hosts": outcome})
        return
    for who, what in outcome.items():
        say(f"{who}: {what}")
