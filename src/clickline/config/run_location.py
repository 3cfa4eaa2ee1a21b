"""Where a run is: in a directory, or at a URL with a local copy in which its processes work.

The local copy has the layout of any run's directory, so that everything which reads or writes a run works on paths. It
lies below the user's cache directory, named by the URL's digest and the run's name.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from clickline.config.job import Job
from clickline.errors import CheckpointError
from clickline.files.cache_directory import user_cache
from clickline.files.storage import is_local, is_url


@dataclass(frozen=True, slots=True)
class RunLocation:
    """Where a run is."""

    directory: Path
    """In which its processes work on this machine."""
    url: str | None = None
    """Where it is kept, if not there."""

    @property
    def shown(self) -> str:
        """For messages."""
        return self.url or str(self.directory)


def location_of(job: Job) -> RunLocation:
    """Where the run of a job is, or will be."""
    if is_elsewhere(job.output):
        url = f"{job.output.rstrip('/')}/{job.name}"
        return RunLocation(copy_directory(url, kind="runs"), url)
    return RunLocation(local_path(job.output) / job.name)


def described(location: RunLocation) -> str:
    """The line that says where a run will be."""
    if location.url is None:
        return f"its run will be in {location.directory}"
    return f"its run will be at {location.url}, with a local copy in {location.directory}"


def run_directory_of(job: Job) -> Path:
    """The directory in which the processes of a job work on this machine."""
    return location_of(job).directory


def copy_directory(url: str, *, kind: str) -> Path:
    """Where a copy of a run lies: `runs` are worked in, `run-copies` are for reading alone."""
    parent, _, name = url.rstrip("/").rpartition("/")
    digest = hashlib.sha256(parent.encode()).hexdigest()[:16]
    return user_cache(kind, error=CheckpointError, below_variable=kind) / digest / name


def is_elsewhere(where: str | Path | None) -> bool:
    """Whether this is a URL of something that is not in this machine's file system."""
    return isinstance(where, str) and is_url(where) and not is_local(where)


def local_path(where: str | Path) -> Path:
    """A path, or a file:// URL, as a path."""
    text = str(where)
    return Path(text.partition("://")[2]) if isinstance(where, str) and is_url(text) else Path(where)
