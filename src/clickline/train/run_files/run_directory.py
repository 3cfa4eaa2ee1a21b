"""From a path to a run or a checkpoint.

The path may be a run's directory, its job file, one of its checkpoints, or a suite's state directory; the URL of a run
or of a checkpoint stands for a copy that is fetched. Every verb and function that is about a run or a checkpoint finds
it here, so all of them take the same paths. Finding a run does not load PyTorch.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from clickline import config
from clickline.config.run_location import is_elsewhere, local_path, location_of
from clickline.errors import CheckpointError, ClicklineError
from clickline.files.atomic import replace_json
from clickline.train.checkpoints import checkpoint_manifest
from clickline.train.checkpoints.checkpoint_directories import MANIFEST
from clickline.train.checkpoints.checkpoint_manifest import Checkpoint
from clickline.train.run_files.own_code import keep_own_code, use_own_code

if TYPE_CHECKING:
    from clickline.config import Job


JOB_FILE = "job.json"
SUITE = "suite.json"
"""What a suite's state directory has, in which there may be several runs."""
CHECKPOINTS = "checkpoints"
SIGNS = ("status.json", "logs", "metrics.jsonl", CHECKPOINTS)
"""What a run's directory has, one of them at least."""
_TRIES = 5


def find_run(where: str | Path | None, *, only: Collection[str] | None = None, logs: bool = False) -> Path:
    """The directory of a run. None: the one below `runs` that was written to last.

    Of a run at a URL it is a copy of its files, or of `only` some of them; `logs` are fetched where they are wanted.
    """
    if where is None:
        return _newest(Path("runs"))
    if is_elsewhere(where):
        from clickline.train.run_storage.run_copy import RunCopy

        return RunCopy(str(where)).fetch_files(only=only, logs=logs)
    path = local_path(where)
    if path.is_dir():
        if (path / MANIFEST).is_file():
            return _run_of(path)
        return _newest(path) if (path / SUITE).exists() else path
    if path.suffix in (".yaml", ".yml", ".json"):
        if path.name == JOB_FILE and _is_run(path.parent):
            return path.parent  # wherever it was moved to
        from clickline.config.loading.reader import read_job

        job = read_job(path).job
        location = location_of(job)
        if location.url is not None:
            return find_run(location.url, only=only, logs=logs)
        if not location.directory.is_dir():
            raise ClicklineError(f"{where} has not been run: there is no {location.directory}")
        return location.directory
    raise ClicklineError(f"{where} is neither a run's directory or URL, nor a job file, nor a checkpoint")


def find_checkpoint(where: str | Path) -> Checkpoint:
    """The checkpoint that is meant: the one named; of a run the best one by validation, or else the newest."""
    url = run_url(where)
    if url is not None:
        from clickline.train.run_storage.run_copy import RunCopy

        return checkpoint_manifest.read(RunCopy(url).fetch_checkpoint())
    path = local_path(where)
    if (path / MANIFEST).is_file():
        return checkpoint_manifest.read(path)
    run = find_run(path)
    found = complete_checkpoints(run / CHECKPOINTS)
    if not found:
        raise CheckpointError(
            f"{run}: no complete checkpoint there; expected a run's directory such as runs/NAME, which has "
            "checkpoints/step-…, or one of those, or a job file"
        )
    best = found[-1].manifest["standing"].get("best_step")
    return next((one for one in found if one.step == best), found[-1])


def fetched_checkpoint(where: str | Path) -> Path:
    """A path as it is; a copy of the checkpoint that a URL means."""
    return find_checkpoint(where).path if is_elsewhere(where) else local_path(where)


def run_url(where: str | Path) -> str | None:
    """The URL of a run or checkpoint, if that is what is meant: by itself, or by a job file whose output is one."""
    if is_elsewhere(where):
        return str(where)
    path = local_path(where)
    if path.suffix not in (".yaml", ".yml", ".json") or not path.is_file() or left_by_run(str(path)):
        return None
    from clickline.config.loading.reader import read_job

    return location_of(read_job(path).job).url


def write_job(directory: Path, job: Job) -> Path:
    """Leave the job as it was resolved, and copies of the user's own files that it names. Returns the job's file.

    For processes that are started with it, and for resuming the run.
    """
    path = directory / JOB_FILE
    keep_own_code(job, directory)
    try:
        replace_json(path, job.model_dump(mode="json"))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be written: {error}") from error
    return path


def job_of(checkpoint: Checkpoint) -> Job:
    """The job that a checkpoint is of. The user's own files that are not found are loaded from the run's copies."""
    job = config.Job.model_validate(checkpoint.manifest["job"])
    use_own_code(checkpoint.path.absolute().parent.parent)
    return job


def complete_checkpoints(directory: Path) -> list[Checkpoint]:
    """All complete checkpoints; a running job may remove one while we look at it, then we look again."""
    for _ in range(_TRIES - 1):
        try:
            return checkpoint_manifest.find(directory)
        except CheckpointError:
            continue
    return checkpoint_manifest.find(directory)


def _run_of(checkpoint: Path) -> Path:
    run = checkpoint.absolute().parent.parent if checkpoint.absolute().parent.name == CHECKPOINTS else None
    if run is None:
        raise ClicklineError(f"{checkpoint} is a checkpoint outside of a run's directory")
    return run if checkpoint.is_absolute() else checkpoint.parent.parent


def _is_run(directory: Path) -> bool:
    return any((directory / sign).exists() for sign in SIGNS)


def _newest(parent: Path) -> Path:
    found = {sign.parent: sign.stat().st_mtime for name in SIGNS for sign in parent.glob(f"*/{name}")}
    if not found:
        raise ClicklineError(f"there is no run in {parent.absolute()}; name its directory or its job file")
    return max(found, key=found.__getitem__)


def left_by_run(file: str) -> bool:
    """Whether a job file was written by a run, which writes every key there is, those without effect included."""
    return Path(file).name == JOB_FILE and (Path(file).parent / CHECKPOINTS).is_dir()
