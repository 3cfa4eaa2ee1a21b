"""Copies of the user's own files in a run's directory, so that the run can be opened wherever one is.

Only the files that the job names as `path/file.py:Name` are copied: a model, a reader, metrics. Modules that they
import, and what is named as `module:Name`, have to be importable where the run is opened.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from clickline.files.atomic import replace_file
from clickline.plugins import copy_name, file_of, look_for_copies_in

if TYPE_CHECKING:
    from clickline.config import Job


log = logging.getLogger("clickline.train")
CODE = "code"
LIMIT = 1 << 20
"""Bytes of one file; a larger one is not a program."""


def keep_own_code(job: Job, directory: Path) -> None:
    """Copy the files into a run's directory. A copy of a file that is not there any more stays as it is."""
    for place in own_files(job):
        source, copy = Path(place).expanduser(), directory / CODE / copy_name(place)
        try:
            if not source.is_file():
                continue
            if source.stat().st_size > LIMIT:
                log.warning("%s is larger than %d bytes: the run keeps no copy of it", place, LIMIT)
                continue
            content = source.read_bytes()
            if copy.is_file() and copy.read_bytes() == content:
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            replace_file(copy, content)
        except OSError as error:  # the run itself needs none
            log.warning("%s: the run keeps no copy of it: %s", place, error)


def use_own_code(directory: Path) -> None:
    """Load files of a job that are not found from the copies in its run's directory."""
    look_for_copies_in(directory / CODE)


def own_files(job: Job) -> Iterator[str]:
    """The files that a job names, as it names them."""
    for reference in dict.fromkeys([job.model.name, job.data.format, *job.metrics.own]):
        place = file_of(reference)
        if place is not None:
            yield place
