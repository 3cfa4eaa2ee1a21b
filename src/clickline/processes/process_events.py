"""What a supervisor reports: events with a type that programs decide by, and a text for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class ProcessChange(Enum):
    """What has happened to a process."""

    JOINED = auto()
    """Started for the first time, after the supervisor itself."""
    DIED = auto()
    """It will be started again."""
    RESTARTED = auto()
    FAILED = auto()
    """It is not started again, and the others go on without it."""
    REPLACED = auto()
    """Another process, which was not started here, has taken its role."""
    STALLED = auto()
    """Killed, since it sent no heartbeat."""
    KILLED = auto()
    """Killed, since it did not stop when asked."""


@dataclass(frozen=True, slots=True)
class ProcessEvent:
    """A change of one process, of which `str` is a sentence."""

    change: ProcessChange
    process: str
    """Its name, such as cube.0."""
    text: str

    def __str__(self) -> str:
        return self.text
