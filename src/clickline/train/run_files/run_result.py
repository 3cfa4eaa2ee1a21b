"""The result of a run, and the file of it in the run's directory: result.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from clickline.errors import CheckpointError
from clickline.files.atomic import replace_json
from clickline.processes.termination_message import add_to_termination_message
from clickline.train.run_files.run_directory import CHECKPOINTS
from clickline.train.run_files.run_lock import RunLock


@dataclass(frozen=True)
class Result:
    """The result of a run."""

    directory: Path
    checkpoint: Path
    """The best one by validation, or the last."""
    steps: int
    rows: int
    seconds: float
    valid: dict[str, float] = field(default_factory=dict)
    """Figures of this checkpoint on the validation data."""
    test: dict[str, float] = field(default_factory=dict)
    """Figures of this checkpoint on the test data."""
    url: str | None = None
    """Where the run is kept, if `output` is a URL: the paths are those of the local copy then."""

    @property
    def shown_checkpoint(self) -> str:
        """For messages: where the checkpoint is kept."""
        return str(self.checkpoint) if self.url is None else f"{self.url}/{CHECKPOINTS}/{self.checkpoint.name}"

    def to_dict(self) -> dict[str, object]:
        fields = {name: str(v) if isinstance(v, Path) else v for name, v in asdict(self).items()}
        return {name: value for name, value in fields.items() if name != "url" or value is not None}


def write_result_file(lock: RunLock, result: Result, more: Mapping[str, object] | None = None) -> Result:
    """Write the result of a run into its directory; returns it with where the run is kept."""
    lock.check()
    result = replace(result, url=lock.url)
    try:
        replace_json(lock.directory / "result.json", {**result.to_dict(), **(more or {})})
    except OSError as error:
        raise CheckpointError(f"{lock.directory / 'result.json'}: cannot be written: {error}") from error
    if not add_to_termination_message({"result": {**result.to_dict(), **(more or {})}}):
        add_to_termination_message({"result": result.to_dict()})
    return result
