"""What a launcher in the background is told, and what it reports: lines of JSON, on its standard input and output.

The order holds credentials, so it goes into no file, argument or environment.
"""

from __future__ import annotations

from typing import Any, BinaryIO

import msgspec

from clickline.config import Job
from clickline.errors import ClicklineError
from clickline.files.typed_json import decode_json
from clickline.launch.hosts.host_messages import NodeSteps, line_of
from clickline.launch.job_records import JobRecord
from clickline.progress import LogOnly


class LaunchOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job to launch."""

    job: str
    """Its identifier, as `new_job_name` makes it."""
    settings: dict[str, Any]
    """The checked job, as JSON has it."""
    launcher: str
    workspace: str
    """Directory whose files each node gets."""
    steps: NodeSteps = NodeSteps()
    resume: bool = False
    """Whether it goes on from the newest checkpoint; otherwise what is there is thrown away."""
    warm_start: str = ""
    """Checkpoint or run whose weights it begins with, as the first host sees it."""
    mpirun: list[str] = []
    """mpi: the command that starts the ranks, without the program."""
    python: str = ""
    """mpi: the Python of the ranks; empty: as here."""
    manifests: str = ""
    """kubernetes: the objects to make, as YAML; empty: those of the job."""
    archive: bytes = b""
    """The files of the workspace, where the order itself is sent to a host that lacks them."""

    @property
    def checked_job(self) -> Job:
        return Job.model_validate(self.settings)


class LaunchStarted(msgspec.Struct, frozen=True, tag="started"):
    """The job's files are on all hosts, and runners are there."""

    record: JobRecord


class LaunchLine(msgspec.Struct, frozen=True, tag="line"):
    """A line of its log."""

    text: str


class LaunchEnded(msgspec.Struct, frozen=True, tag="ended"):
    """The job has ended well."""

    result: dict[str, Any]


class LaunchFailed(msgspec.Struct, frozen=True, tag="failed"):
    """It has not."""

    message: str
    exit_code: int


LaunchEvent = LaunchStarted | LaunchLine | LaunchEnded | LaunchFailed


class LaunchError(ClicklineError):
    """What a launcher in the background reports of a job that failed, with the exit code of its own error."""

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class EventReporter(LogOnly):
    """Reports to whoever started this process, as long as somebody listens; a watcher, whose words are lines."""

    def __init__(self, out: BinaryIO) -> None:
        self._out: BinaryIO | None = out

    def send(self, event: LaunchEvent) -> None:
        try:
            if self._out is not None:
                self._out.write(line_of(event))
                self._out.flush()
        except (OSError, ValueError):
            self._out = None  # nobody listens any more, which ends nothing

    def say(self, text: str) -> None:
        self.send(LaunchLine(text))

    def begin(self, title: str) -> None:
        self.say(title)


def launch_event(line: bytes) -> LaunchEvent:
    """A line of a launcher. Raises msgspec.MsgspecError if it is none."""
    event: LaunchEvent = decode_json(line, LaunchEvent)
    return event
