"""The log of a job on other hosts, as its launcher has gathered it: the last lines, and those still to come."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from clickline.errors import ClicklineError

if TYPE_CHECKING:
    from clickline.launch.job_records import JobRecord

_LOOK_EVERY = 0.2
_HEAD = 2
"""Words before the colon: HOST PROCESS."""


def show_job_log(record: JobRecord, wanted: Callable[[str], bool], *, lines: int, follow: bool) -> None:
    """Print the lines of the processes that are wanted, each after its host and process."""
    path = Path(record.log)
    if not path.exists():
        raise ClicklineError(f"{record.job} has no log here; it was to be in {path}")
    with path.open(encoding="utf-8", errors="replace") as log:
        for line in deque(_lines(log, wanted), maxlen=lines):
            print(line, flush=True)
        while follow:
            fresh = False
            for line in _lines(log, wanted):
                print(line, flush=True)
                fresh = True
            if not fresh:
                if record_has_ended(record):
                    return
                time.sleep(_LOOK_EVERY)


def record_has_ended(record: JobRecord) -> bool:
    """Whether the job, as recorded by now, does not run any more: nothing is to come."""
    from clickline.launch.job_records import JobPhase, read_record

    return read_record(record.job).phase_now != JobPhase.RUNNING


def _lines(log: Iterator[str], wanted: Callable[[str], bool]) -> Iterator[str]:
    for line in log:
        words = line.partition(": ")[0].split()
        if len(words) == _HEAD and wanted(words[1]):
            yield line.rstrip("\n")
