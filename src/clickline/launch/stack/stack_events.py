"""What `clickline.up` reports while it works: one class for each kind of event, all with plain values.

Who draws them decides by their types. `Task…` and `Note` come from training and publishing, which describe what they
do in words of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from clickline.processes.process_events import ProcessEvent


class Stage(Enum):
    """What `up` does, in this order. The values of the first three are phases of suite.json."""

    DATA = "making data"
    TRAINING = "training"
    PUBLISHING = "publishing"
    STARTING = "starting"
    DELIVERING = "delivering"
    FIRST_VERSION = "waiting for the predictor"
    MEASURING = "measuring"


@dataclass(frozen=True, slots=True)
class StageStarted:
    stage: Stage


@dataclass(frozen=True, slots=True)
class StageEnded:
    """Comes for every stage that was started, also for one that has failed."""

    stage: Stage


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence for people."""

    text: str


@dataclass(frozen=True, slots=True)
class TaskStarted:
    title: str


@dataclass(frozen=True, slots=True)
class TaskAdvanced:
    share: float | None
    """Of the whole, from 0 to 1; None if that is not known."""
    figures: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TaskEnded:
    pass


@dataclass(frozen=True, slots=True)
class DemoDataKept:
    rows: int


@dataclass(frozen=True, slots=True)
class DemoDataProgress:
    done: int
    rows: int


@dataclass(frozen=True, slots=True)
class RunKept:
    """A run that had finished is not trained again."""

    directory: Path
    rows: int


@dataclass(frozen=True, slots=True)
class RunResumed:
    directory: Path
    step: int


@dataclass(frozen=True, slots=True)
class VersionKept:
    """The model was published before."""

    version: int
    store: str


@dataclass(frozen=True, slots=True)
class DirectoryDiscarded:
    directory: Path


@dataclass(frozen=True, slots=True)
class ProcessStarted:
    name: str
    started: int
    """How many run by now."""
    expected: int


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """How many servers have got how far with a version."""

    version: int
    servers: int
    downloaded: int
    loaded: int
    switched: int


@dataclass(frozen=True, slots=True)
class DeliveryProblem:
    text: str


@dataclass(frozen=True, slots=True)
class NoTestData:
    """The job names no test data, so predictions cannot be measured."""


@dataclass(frozen=True, slots=True)
class MeasuringProgress:
    rows: int
    total: int | None
    version: int


@dataclass(frozen=True, slots=True)
class VersionSwitched:
    """Another version is in service, while the stack is waited for."""

    version: int
    before: int


StackEvent = (
    StageStarted
    | StageEnded
    | Note
    | TaskStarted
    | TaskAdvanced
    | TaskEnded
    | DemoDataKept
    | DemoDataProgress
    | RunKept
    | RunResumed
    | VersionKept
    | DirectoryDiscarded
    | ProcessStarted
    | ProcessEvent
    | DeliveryProgress
    | DeliveryProblem
    | NoTestData
    | MeasuringProgress
    | VersionSwitched
)
Emit = Callable[[StackEvent], None]


class EventWatcher:
    """A watcher of training and publishing that turns what it is told into events."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit

    def say(self, text: str) -> None:
        self._emit(Note(text))

    def begin(self, title: str) -> None:
        self._emit(TaskStarted(title))

    def advance(self, *, share: float | None, facts: Mapping[str, object]) -> None:
        self._emit(TaskAdvanced(share, facts))

    def end(self) -> None:
        self._emit(TaskEnded())


@contextmanager
def reported(stage: Stage, emit: Emit) -> Iterator[None]:
    """Emit that a stage begins, and that it has ended, however it ends."""
    emit(StageStarted(stage))
    try:
        yield
    finally:
        emit(StageEnded(stage))
