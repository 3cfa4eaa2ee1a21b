"""The typed job: reading, checking, explaining.

`Job` is looked up when it is first used: its classes take a fifth of a second to build, and much that reads a setting
or a run's files needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clickline.config.job import Job

__all__ = ["Job"]


def __getattr__(name: str) -> Any:
    if name == "Job":
        return import_module("clickline.config.job").Job
    raise AttributeError(f"module 'clickline.config' has no attribute {name!r}")
