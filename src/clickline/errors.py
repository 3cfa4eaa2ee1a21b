"""Errors a user can do something about. Everything else is a bug and shows its traceback.

ClicklineError
├── JobError          the job file is wrong
├── DataError         the data cannot be read, or too much of it is malformed
├── ModelError        the model cannot be built, or does not fit the job
├── CheckpointError   a checkpoint or another file of a run is missing, damaged, of another job, or cannot be written
├── PeerError         another process of the job cannot be reached, refuses us, or has failed
├── VersionError      a published version is missing, damaged, does not fit its parent, or must not be published
└── ReplacedError     another process has taken this one's place
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class JobProblem:
    """One thing that is wrong in a job, and where."""

    key: str
    """Path of the key, such as features.slots[3].pooling; empty if the problem is not about one key."""
    message: str
    line: int | None = None
    column: int | None = None
    override: bool = False
    """Whether the value came from --set rather than from the file."""

    def __str__(self) -> str:
        line = "" if self.line is None else f"line {self.line}"
        column = "" if self.column is None else f"column {self.column}"
        where = ", ".join(part for part in (self.key, line, column, "--set" if self.override else "") if part)
        return f"{where}: {self.message}" if where else self.message


class ClicklineError(Exception):
    """Base of all errors a user can act on; `exit_code` is what the command line exits with.

    `errors` holds every problem found in a job, where there is more to say than the message.
    """

    exit_code = 1

    def __init__(self, *args: object, errors: Sequence[JobProblem] = ()) -> None:
        super().__init__(*args)
        self.errors = list(errors)

    def as_dict(self) -> dict[str, object]:
        """The error for programs: what `--json` prints."""
        facts = {"type": type(self).__name__, "message": str(self), "exit_code": self.exit_code}
        return facts | ({"errors": [asdict(problem) for problem in self.errors]} if self.errors else {})


class JobError(ClicklineError):
    exit_code = 3

    def as_dict(self) -> dict[str, object]:
        return super().as_dict() | {"errors": [asdict(problem) for problem in self.errors]}


class DataError(ClicklineError):
    exit_code = 4


class ModelError(ClicklineError):
    exit_code = 5


class CheckpointError(ClicklineError):
    exit_code = 6


class PeerError(ClicklineError):
    exit_code = 7


class VersionError(ClicklineError):
    exit_code = 8


class ReplacedError(ClicklineError):
    """Another process has this one's name, or its run's directory: there is nothing left to do here but to end."""

    exit_code = 9
