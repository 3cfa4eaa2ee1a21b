"""What the coordinator must not forget: where the run stands. Kept in one file, replaced as a whole at every change.

The same facts are in every checkpoint, so a run can also be taken up from there, by other processes and another
number of them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from clickline.errors import CheckpointError, ClicklineError, ReplacedError
from clickline.files.atomic import replace_file
from clickline.files.failpoints import reach
from clickline.train.run_files.run_lock import COORDINATOR as FILE
from clickline.train.run_files.run_lock import EPOCH, RunLock


@dataclass
class Standing:
    """Where a run of many processes stands."""

    generation: int = 1
    """Counts the times that everybody went back to a checkpoint together."""
    epoch: int = 0
    phase: str = "gathering"
    """gathering, training, evaluating, finished, failed or interrupted."""
    book: dict[str, Any] | None = None
    """The leases of this epoch; None before it has begun and after it is over."""
    next_lease: int = 1
    cut_for: int = 0
    """Trainers for which the data was cut into pieces; a book means nothing with another cut. 0 = not yet."""
    cut_bytes: int | None = None
    """`cluster.piece_bytes` with which it was cut; None = not yet."""
    step: int = 0
    """Steps that trainers have reported; the number of the synchronous step where they go in lockstep."""
    rows: int = 0
    rows_before: int = 0
    """Rows of the epochs before this one."""
    tick: int = 0
    checkpoint: str | None = None
    """The last cut."""
    warm: str | None = None
    """A checkpoint whose weights the run began with: before the first cut, and where rows restart in each epoch."""
    first_step: int = 0
    """Where the run began to count: at 0, or at the step of that checkpoint."""
    best_score: float | None = None
    """The best validation, by the figure of early stopping, turned so that larger is better."""
    best_metric: str = "auc"
    """The figure that the best score is of."""
    best_step: int | None = None
    stale_epochs: int = 0
    validation_due: bool = False
    """An epoch is over, but has not been validated."""
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
    valid: dict[str, float] = field(default_factory=dict)
    """Figures of the last validation, at this step and on these files."""
    valid_step: int | None = None
    valid_files: list[str] = field(default_factory=list)
    test: dict[str, float] = field(default_factory=dict)
    epochs: list[dict[str, float]] = field(default_factory=list)
    """Rows and seconds of each epoch that was trained in one go."""
    cuts: int = 0
    pause_seconds: float = 0.0
    """Of the last cut: how long all trainers stood still."""
    cut_seconds: float = 0.0
    """Of the last cut: from the wish for it to its end, the trainers' coming to a halt included."""

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Standing:
        known = {name: value for name, value in facts.items() if name in cls.__dataclass_fields__}
        return cls(**known)


class StandingFile:
    """`coordinator.json` of a run whose lock this process holds."""

    def __init__(self, lock: RunLock) -> None:
        self._lock, self._path = lock, lock.directory / FILE
        self._left: os.stat_result | None = None
        """The file as this process has left it."""
        self.failure: ClicklineError | None = None
        """Why it could not be written: reason enough to end the run, whichever thread came upon it."""

    @property
    def epoch(self) -> int:
        """Of this writer."""
        return self._lock.epoch

    def check_holder(self) -> None:
        """Raise ReplacedError if another process has taken the run's directory."""
        self._lock.check()

    def read(self) -> Standing | None:
        """What a coordinator before this one has left, if anything. Raises CheckpointError if it cannot be read."""
        try:
            facts = json.loads(self._path.read_bytes())
            if not isinstance(facts, dict):
                raise ValueError("not a JSON object")
            return Standing.from_dict(facts)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{self._path}: not readable: {error}") from error

    def remove(self) -> None:
        """For a run that starts, or goes on from a checkpoint."""
        self._lock.check()
        self._path.unlink(missing_ok=True)

    def save(self, standing: Standing) -> None:
        """Replace the file; when this returns, a crash cannot take it back. A process that was replaced is told so."""
        facts = {EPOCH: self._lock.epoch, **standing.__dict__}
        try:
            replace_file(self._path, json.dumps(facts).encode(), before_rename=self._before_rename)
            self._left = self._path.stat()
            reach("standing.renamed")
        except ReplacedError as error:
            self.failure = error
            raise
        except OSError as error:
            self.failure = CheckpointError(
                f"{self._path}: cannot be written: {error}; --resume goes on from the newest checkpoint, "
                "--fresh starts over where there is none yet"
            )
            raise self.failure from error

    def _before_rename(self) -> None:
        reach("standing.written")
        self._lock.check()
        # The lock's file may have been removed, and another process may have locked a new one.
        try:
            with self._path.open("rb") as file:
                now = os.fstat(file.fileno())
                left = self._left
                same = left is not None and os.path.samestat(now, left) and now.st_mtime_ns == left.st_mtime_ns
                facts = {} if same else json.loads(file.read())
        except (FileNotFoundError, ValueError):
            return
        if isinstance(facts, dict) and facts.get(EPOCH, 0) > self._lock.epoch:
            raise ReplacedError(
                f"{self._path} is of writer epoch {facts[EPOCH]}, this process is of {self._lock.epoch}: it was "
                "replaced, and changes nothing"
            )
