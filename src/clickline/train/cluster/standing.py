"""What the coordinator must not forget: where the run stands. Kept in one file, replaced as a whole at every change.

The same facts are in every checkpoint, so a run can also be taken up from there, by other processes and another
number of them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clickline.errors import CheckpointError

FILE = "coordinator.json"


@dataclass
class Standing:
    """Where a run of many processes stands."""

    generation: int = 1
    """Counts the times that everybody went back to a checkpoint together."""
    epoch: int = 0
    phase: str = "gathering"
    """gathering, training, evaluating, finished, or failed."""
    book: dict[str, Any] | None = None
    """The leases of this epoch; None before it has begun and after it is over."""
    next_lease: int = 1
    cut_for: int = 0
    """Trainers for which the data was cut into pieces; a book means nothing with another cut. 0 = not yet."""
    step: int = 0
    """Steps that trainers have reported; the number of the synchronous step where they go in lockstep."""
    rows: int = 0
    rows_before: int = 0
    """Rows of the epochs before this one."""
    tick: int = 0
    checkpoint: str | None = None
    """The last cut."""
    warm: str | None = None
    """A checkpoint whose weights the run begins with; used where there is no cut yet."""
    best_auc: float | None = None
    best_step: int | None = None
    stale_epochs: int = 0
    repeated_rows: int = 0
    set_aside: list[dict[str, Any]] = field(default_factory=list)
    lost_pushes: int = 0
    """Counted by servers that have died since; those that live count on."""
    retries: int = 0
    """The same of trainers' requests that had to be sent again."""
    faults: list[str] = field(default_factory=list)
    """The last ones; all of them are in the coordinator's log."""
    incarnations: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name, the last process that has joined under it: see incarnations.py."""
    writer_epoch: int = 0
    """Counts the coordinators of this run: others believe the one with the highest."""
    valid: dict[str, float] = field(default_factory=dict)
    test: dict[str, float] = field(default_factory=dict)
    epochs: list[dict[str, float]] = field(default_factory=list)
    """Rows and seconds of each epoch that was trained in one go."""
    cuts: int = 0
    pause_seconds: float = 0.0
    """Of the last cut: how long all trainers stood still."""
    cut_seconds: float = 0.0
    """Of the last cut: from the wish for it to its end, the trainers' coming to a halt included."""

    def save(self, directory: Path) -> None:
        """Replace the file; a reader sees the old or the new one."""
        aside = directory / f".{FILE}.{os.getpid()}"
        aside.write_text(json.dumps(self.__dict__), encoding="utf-8")
        aside.replace(directory / FILE)

    @classmethod
    def read(cls, directory: Path) -> Standing | None:
        """What a coordinator before this one has left, if anything."""
        try:
            return cls.from_dict(json.loads((directory / FILE).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise CheckpointError(f"{directory / FILE}: not readable: {error}; remove it to start anew") from error

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Standing:
        known = {name: value for name, value in facts.items() if name in cls.__dataclass_fields__}
        return cls(**known)
