"""A summary of a run, from the files in its directory: for lists of runs and for comparing two.

Nothing here needs PyTorch. Keys that a run has not written yet, or that an earlier version did not write, are None.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

from clickline.config import Job
from clickline.config.loading.reader import read_job
from clickline.config.run_location import is_elsewhere, local_path, run_directory_of
from clickline.errors import ClicklineError
from clickline.train.checkpoints import checkpoint_manifest
from clickline.train.checkpoints.checkpoint_directories import MANIFEST
from clickline.train.checkpoints.checkpoint_figures import recorded
from clickline.train.checkpoints.checkpoint_manifest import MANIFEST_LIMIT, Checkpoint, JsonObject
from clickline.train.monitoring.run_health import ENDED, STALE, age_of
from clickline.train.monitoring.run_status import STATUS
from clickline.train.run_files.run_directory import CHECKPOINTS, JOB_FILE, find_run, run_url
from clickline.train.run_storage.run_copy import RunCopy, runs_below

RESULT = "result.json"
_SIGNS = (STATUS, JOB_FILE, "metrics.jsonl", CHECKPOINTS)
"""A run's directory has one of these. `logs` is none: a suite's state directory, which holds runs, has logs as well."""


@dataclass(frozen=True)
class RunSummary:
    """A run, or one of its checkpoints: its settings, its progress and its figures."""

    path: str
    """What was read: the run's directory, the checkpoint, or a job file that has not been run."""
    name: str | None
    state: str
    """The phase of its status; `lost` if nobody writes that any more; of a checkpoint `checkpoint`."""
    strategy: str | None = None
    model: str | None = None
    epoch: int | None = None
    epochs: int | None = None
    steps: int | None = None
    rows: int | None = None
    seconds: float | None = None
    valid: dict[str, float] = field(default_factory=dict)
    test: dict[str, float] = field(default_factory=dict)
    time: float | None = None
    """When this was written, in seconds since 1970."""
    problem: str | None = None
    """Why some of it could not be read."""
    job: JsonObject = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


class _FromJob(TypedDict, total=False):
    """The keys of a summary that a job alone gives."""

    job: JsonObject
    strategy: str | None
    model: str | None
    epochs: int | None


def summary_of(where: str | Path) -> RunSummary:
    """Of a run's directory, a checkpoint, or a job file: its run, or if it has none what the job says."""
    url = run_url(where)
    if url is not None:
        return _of_url(url, where)
    path = local_path(where)
    if (path / MANIFEST).is_file():
        return _of_checkpoint(checkpoint_manifest.read(path))
    if path.is_file() and path.name != JOB_FILE:
        job = read_job(path).job
        if not run_directory_of(job).is_dir():
            return _of_job(path, job)
    run = find_run(path)
    if not _is_run(run):
        raise ClicklineError(f"{where} is not the directory of a run: it has none of {', '.join(_SIGNS)}")
    return _of_run(run)


def summaries_in(where: str | Path) -> list[RunSummary]:
    """Of all runs in a directory, the one written to last first; of a run, its job file or a checkpoint that one."""
    url = run_url(where)
    if url is not None:
        copy = RunCopy(url)
        if not is_elsewhere(where) or copy.names_checkpoint or copy.exists():
            return [summary_of(where)]
        below = [RunCopy(one) for one in runs_below(url)]
        return _newest_first(_of_copy(one) for one in below if one.exists())
    path = local_path(where)
    if not path.exists():
        raise ClicklineError(
            f"there is no {str(where)!r}; name the directory that holds the runs, a run, or a job file"
        )
    if not path.is_dir() or _is_run(path) or (path / MANIFEST).is_file():
        return [summary_of(path)]
    return _newest_first(_of_run(one) for one in sorted(path.iterdir()) if one.is_dir() and _is_run(one))


def job_differences(one: Any, other: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every key that two jobs do not agree on, with both values. Lists of another length are one value."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys([*one, *other]):
            yield from job_differences(one.get(name), other.get(name), f"{key}.{name}" if key else str(name))
    elif _same_shape(one, other):
        for place, (mine, yours) in enumerate(zip(one, other, strict=True)):
            yield from job_differences(mine, yours, f"{key}[{place}]")
    elif one != other:
        yield key, one, other


def _same_shape(one: Any, other: Any) -> bool:
    if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
        return False
    return all(isinstance(item, dict) for item in [*one, *other])


def _newest_first(found: Iterable[RunSummary]) -> list[RunSummary]:
    return sorted(found, key=lambda one: one.time or 0.0, reverse=True)


def _of_job(path: str | Path, job: Job) -> RunSummary:
    return RunSummary(path=str(path), name=job.name, state="not run", **_from_job(job.model_dump(mode="json")))


def _of_url(url: str, where: str | Path) -> RunSummary:
    """Of a run or checkpoint at a URL; of a job file that names one, what the job says if it has not been run."""
    copy = RunCopy(url)
    if not copy.exists() and not is_elsewhere(where):
        return _of_job(where, read_job(local_path(where)).job)
    if copy.names_checkpoint:
        return replace(_of_checkpoint(checkpoint_manifest.read(copy.fetch_checkpoint())), path=url)
    return _of_copy(copy)


def _of_copy(copy: RunCopy) -> RunSummary:
    return replace(_of_run(copy.fetch_files(only=(JOB_FILE, STATUS, RESULT))), path=copy.url)


def _is_run(directory: Path) -> bool:
    return any((directory / sign).exists() for sign in _SIGNS)


def _of_run(directory: Path) -> RunSummary:
    problems: list[str] = []
    job, status, result = (_json(directory / name, problems) for name in (JOB_FILE, STATUS, RESULT))
    if not job:
        job = _job_of_newest(directory, problems)
    state = str(status.get("phase") or ("finished" if result else "unknown"))
    if state not in (*ENDED, "unknown") and age_of(status) > STALE:
        state = "lost"
    if state != "finished":  # the result is that of an earlier part of the run, which has been taken up again
        result = {}
    valid = {name: status[name] for name in ("auc", "rmse") if status.get(name) is not None}
    written = [(directory / name).stat().st_mtime for name in (STATUS, RESULT, JOB_FILE) if (directory / name).exists()]
    from_job = _from_job(job)
    from_job["strategy"] = status.get("strategy") or from_job.get("strategy")
    from_job["epochs"] = status.get("epochs") or from_job.get("epochs")
    return RunSummary(
        path=str(directory),
        name=job.get("name") or status.get("job") or directory.name,
        state=state,
        **from_job,
        epoch=status.get("epoch"),
        steps=result.get("steps", status.get("step")),
        rows=result.get("rows", status.get("rows")),
        seconds=result.get("seconds"),
        valid=result.get("valid") or valid,
        test=result.get("test") or status.get("test") or {},
        time=status.get("time") or max(written, default=None),
        problem="; ".join(problems) or None,
    )


def _of_checkpoint(checkpoint: Checkpoint) -> RunSummary:
    manifest, figures = checkpoint.manifest, recorded(checkpoint)
    return RunSummary(
        path=str(checkpoint.path),
        name=manifest["job"].get("name"),
        state="checkpoint",
        **_from_job(manifest["job"]),
        epoch=checkpoint.epoch,
        steps=checkpoint.step,
        rows=manifest["standing"].get("rows"),
        valid=figures["valid"].figures if "valid" in figures else {},
        test=figures["test"].figures if "test" in figures else {},
        time=(checkpoint.path / MANIFEST).stat().st_mtime,
    )


def _from_job(job: JsonObject) -> _FromJob:
    """What a job alone gives; a job of another version of the program may not be valid any more."""
    if not job:
        return {}
    try:
        strategy: Any = Job.model_validate(job).resolved_strategy
    except ValueError:
        strategy = job.get("strategy")
    model, train = job.get("model") or {}, job.get("train") or {}
    return {"job": job, "strategy": strategy, "model": model.get("name"), "epochs": train.get("epochs")}


def _job_of_newest(directory: Path, problems: list[str]) -> JsonObject:
    try:
        found = checkpoint_manifest.find(directory / CHECKPOINTS)
    except ClicklineError as error:  # or one that was removed while we looked
        problems.append(str(error))
        return {}
    return dict(found[-1].manifest["job"]) if found else {}


def _json(file: Path, problems: list[str]) -> JsonObject:
    """The JSON object in a file; an empty one if there is no such file, or, as a problem, if it cannot be read."""
    try:
        if file.stat().st_size > MANIFEST_LIMIT:
            raise ValueError(f"larger than {MANIFEST_LIMIT} bytes")
        content = json.loads(file.read_bytes())
        if not isinstance(content, dict):
            raise ValueError("not a JSON object")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        problems.append(f"{file}: cannot be read: {error}")
        return {}
    return content
