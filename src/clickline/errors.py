"""Errors a user can do something about. Everything else is a bug and shows its traceback.

    ClicklineError
    ├── JobError          the job file is wrong
    ├── DataError         the data cannot be read, or too much of it is malformed
    ├── ModelError        the model cannot be built, or does not fit the job
    └── CheckpointError   a checkpoint or table file is missing, damaged, or of another job
"""

from __future__ import annotations


class ClicklineError(Exception):
    """Base of all errors a user can act on; `exit_code` is what the command line exits with."""

    exit_code = 1


class JobError(ClicklineError):
    exit_code = 3


class DataError(ClicklineError):
    exit_code = 4


class ModelError(ClicklineError):
    exit_code = 5


class CheckpointError(ClicklineError):
    exit_code = 6
