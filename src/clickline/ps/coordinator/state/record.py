"""The run's record: what the coordinator must not forget. Kept in one file, replaced as a whole at every change.

The same record is in every checkpoint, under the key `standing`, so a run can also be resumed from there, by other
processes and another number of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from clickline.config import Job
from clickline.errors import CheckpointError, ClicklineError, ReplacedError
from clickline.files.atomic import replace_file
from clickline.files.failpoints import reach
from clickline.files.typed_json import convert_json
from clickline.ps.coordinator.state.node_rows import NodeCut, NodeRows
from clickline.ps.protocol.member_messages import JsonObject, RunDirectory
from clickline.train.checkpoints.checkpoint_files import Checkpoint, dense_arrays
from clickline.train.checkpoints.resume import refuse_position
from clickline.train.monitoring.piece_progress import progress_in
from clickline.train.run_files.run_lock import COORDINATOR as FILE
from clickline.train.run_files.run_lock import EPOCH, RunLock


class IncarnationRecord(msgspec.Struct):
    """The last process that has joined under a name."""

    incarnation: int = 0
    client: int = 0
    """0 once the process is known to be of an earlier run."""
    host: str = ""
    pid: int = 0
    machine: str = ""
    born: int = 0


class SetAsidePiece(TypedDict):
    """A piece of data that was given up, because trainers kept dying of it."""

    piece: int
    path: str
    reason: str


@dataclass
class RunRecord:
    """Where a run of many processes is. The names of its fields are those of the file."""

    generation: int = 1
    """1, and 1 more for each time that everybody went back to a checkpoint together."""
    epoch: int = 0
    phase: str = "gathering"
    """gathering, training, evaluating, finished, failed or interrupted."""
    launch: str = ""
    """The name that the launcher gave to this start of the job, if it was a launcher on hosts."""
    book: JsonObject | None = None
    """The lease table of this epoch; None before it has begun and after it is over."""
    next_lease: int = 1
    cut_for: int = 0
    """Trainers for which the data was cut into pieces; a lease table means nothing with another cut. 0 = not yet."""
    cut_bytes: int | None = None
    """`cluster.piece_bytes` with which it was cut; None = not yet."""
    step: int = 0
    """Steps that trainers have reported; the number of the synchronous step where they go in lockstep."""
    rows: int = 0
    rows_before: int = 0
    """Rows of the epochs before this one."""
    tick: int = 0
    checkpoint: str | None = None
    """The last snapshot."""
    warm: str | None = None
    """A checkpoint whose weights the run began with: loaded before the first snapshot, and where rows restart."""
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
    set_aside: list[SetAsidePiece] = field(default_factory=list)
    lost_pushes: int = 0
    """Counted by servers that have died since; those that are alive count on."""
    retries: int = 0
    """The same of trainers' requests that had to be sent again."""
    faults: list[str] = field(default_factory=list)
    """The last ones; all of them are in the coordinator's log."""
    cut_nodes: list[NodeCut] = field(default_factory=list)
    """The same of nodes that have data of their own, in the order of their pieces."""
    node_rows: list[NodeRows] = field(default_factory=list)
    """Rows by node, of the epochs before this one."""
    incarnations: dict[str, IncarnationRecord] = field(default_factory=dict)
    """By name of the process: see incarnations.py."""
    valid: dict[str, float] = field(default_factory=dict)
    """Figures of the last validation, at this step and on these files."""
    valid_step: int | None = None
    valid_files: list[str] = field(default_factory=list)
    test: dict[str, float] = field(default_factory=dict)
    epochs: list[dict[str, float]] = field(default_factory=list)
    """Rows and seconds of each epoch that was trained in one go."""
    cuts: int = 0
    """Snapshots taken."""
    pause_seconds: float = 0.0
    """Of the last snapshot: how long all trainers stood still."""
    cut_seconds: float = 0.0
    """Of the last snapshot: from the request for it to its end, the trainers' coming to a halt included."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunRecord:
        """From the file or a checkpoint of any strategy; keys that only others know are left out."""
        known = {name: value for name, value in values.items() if name in cls.__dataclass_fields__}
        for name, kind in _TYPED.items():
            known[name] = convert_json(known.get(name, kind()), kind)
        return cls(**known)

    def to_dict(self) -> JsonObject:
        """Plain values only, fit for JSON."""
        return {**self.__dict__, **{name: msgspec.to_builtins(getattr(self, name)) for name in _TYPED}}

    def replace_by(self, other: RunRecord) -> None:
        """Take all values of another record: everybody who has this one sees them."""
        self.__dict__.update(other.__dict__)


_TYPED: dict[str, Any] = {
    "incarnations": dict[str, IncarnationRecord],
    "cut_nodes": list[NodeCut],
    "node_rows": list[NodeRows],
}
"""Fields that are of types of their own."""


def record_in(checkpoint: Checkpoint, *, job: Job) -> RunRecord:
    """The record of a run that resumes from a checkpoint, whichever strategy wrote it.

    Raises CheckpointError for one in the middle of an epoch of a single process, which nobody else can go on with.
    """
    values = checkpoint.manifest["standing"]
    record = RunRecord.from_dict(values)
    if "generation" in values:  # written by a coordinator
        return record
    refuse_position(checkpoint, way="parameter servers")
    record.step, record.rows_before = checkpoint.step, record.rows
    record.tick = int(dense_arrays(checkpoint)["tick"])
    progress = progress_in(checkpoint)
    if progress is not None:
        record.cut_for, record.cut_bytes = progress.trainers, progress.piece_bytes
        record.book = progress.to_book(attempts=job.cluster.piece_attempts)
        # The lease table counts rows of pieces that were begun; all others count as those of epochs before.
        record.rows_before = record.rows - sum(progress.begun.values())
    return record


def read_record(directory: Path) -> RunRecord | None:
    """The record in a run's directory, if there is any. Raises CheckpointError if it cannot be read."""
    file = directory / FILE
    try:
        values = json.loads(file.read_bytes())
        if not isinstance(values, dict):
            raise ValueError("not a JSON object")
        return RunRecord.from_dict(values)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: not readable: {error}") from error


class RecordFile:
    """`coordinator.json` of a run whose lock this process holds."""

    def __init__(self, lock: RunLock) -> None:
        self.lock, self._path = lock, lock.directory / FILE
        self._written: os.stat_result | None = None
        """The file as this process has written it last."""
        self.failure: ClicklineError | None = None
        """Why it could not be written: that ends the run, whichever thread came upon it."""

    @property
    def epoch(self) -> int:
        """The writer epoch of this process: higher than that of every coordinator before."""
        return self.lock.epoch

    @property
    def directory(self) -> RunDirectory:
        """The run's directory, for processes that may not see it."""
        return RunDirectory(str(self.lock.directory.absolute()), self.lock.nonce)

    def check_holder(self) -> None:
        """Raise ReplacedError if another process has taken the run's directory."""
        self.lock.check()

    def read(self) -> RunRecord | None:
        """The record of a coordinator before this one, if there is any. Raises CheckpointError if it cannot be read."""
        return read_record(self.lock.directory)

    def remove(self) -> None:
        """Remove it, for a run that starts, or resumes from a checkpoint."""
        self.lock.check()
        self._path.unlink(missing_ok=True)

    def save(self, record: RunRecord) -> None:
        """Replace the file; when this returns, a crash cannot take it back. A process that was replaced is told so."""
        values = {EPOCH: self.lock.epoch, **record.to_dict()}
        try:
            replace_file(self._path, json.dumps(values).encode(), before_rename=self._before_rename)
            self._written = self._path.stat()
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
        self.lock.check()
        # The lock's file may have been removed, and another process may have locked a new one.
        try:
            with self._path.open("rb") as file:
                now = os.fstat(file.fileno())
                last = self._written
                # The record is saved with every lease: a file that is still the one written last is not parsed again.
                same = last is not None and os.path.samestat(now, last) and now.st_mtime_ns == last.st_mtime_ns
                values = {} if same else json.loads(file.read())
        except (FileNotFoundError, ValueError):
            return
        if isinstance(values, dict) and values.get(EPOCH, 0) > self.lock.epoch:
            raise ReplacedError(
                f"{self._path} is of writer epoch {values[EPOCH]}, this process is of {self.lock.epoch}: it was "
                "replaced, and changes nothing"
            )
