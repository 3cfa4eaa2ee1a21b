"""Which checkpoint a run resumes from, and whether it may.

A checkpoint can be resumed with the job that made it; only keys that change no arithmetic may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clickline.config import Job
from clickline.errors import CheckpointError
from clickline.train.checkpoints import checkpoint_directories, checkpoint_files

_CHANGES_NO_RESULT = frozenset(
    (
        *("name", "output", "threads", "checkpoint", "cluster"),
        *("train.epochs", "train.log_every", "train.log_format", "train.tensorboard"),
    )
)
"""Bookkeeping, and how much of the same work is done by whom."""
_CHANGES_ONLY_WHAT_FOLLOWS = frozenset(
    (
        *("strategy", "metrics", "train.max_steps", "train.early_stopping", "data.valid", "data.test"),
        *("data.placement", "data.threads", "data.block_bytes", "data.storage", "data.max_bad_rows"),
    )
)
"""What may change from a checkpoint on, since the rows and parameters that it holds stay what they are."""


def checkpoint_to_resume(directory: Path, *, resume: bool | Path, fresh: bool) -> checkpoint_files.Checkpoint | None:
    """The one named, or the newest of the run; None to start. `fresh` removes what is there. Call it under the lock."""
    if isinstance(resume, Path):
        return checkpoint_files.read(resume)
    if fresh and not resume:
        for place in sorted((directory / "checkpoints").glob("step-*"), reverse=True):
            checkpoint_directories.remove(place)
        return None
    found = checkpoint_files.find(directory / "checkpoints")
    if resume:
        if not found:
            raise CheckpointError(f"{directory} has no checkpoint to resume from; leave --resume out to start")
        return found[-1]
    if found:
        raise CheckpointError(
            f"{directory} already holds {len(found)} checkpoint(s), the newest of step {found[-1].step}; "
            "--resume continues from it, --fresh throws it away, --set name=… trains elsewhere"
        )
    return None


def keys_that_forbid_resuming(now: Job, then: Mapping[str, Any]) -> list[str]:
    """Keys in which a job differs from that of a checkpoint so that it cannot go on from there."""
    return _differing(now, then, free=_CHANGES_NO_RESULT | _CHANGES_ONLY_WHAT_FOLLOWS)


def has_same_result(now: Job, then: Mapping[str, Any]) -> bool:
    """Whether a job comes to the same result, length aside, as the job of a checkpoint: it is the same run."""
    return not _differing(now, then, free=_CHANGES_NO_RESULT)


def check_same_job(now: Job, then: Mapping[str, Any], *, where: Path) -> None:
    """Refuse to resume a checkpoint of another job, naming what differs. Length and bookkeeping may differ."""
    if differing := keys_that_forbid_resuming(now, then):
        raise CheckpointError(
            f"{where} is of another job: {', '.join(differing)} differ; resume with the job it was made with, "
            "or start over with --fresh, or start from its weights with --warm-start"
        )


def refuse_position(checkpoint: checkpoint_files.Checkpoint | None, *, way: str) -> None:
    """Raise if a checkpoint stands in the middle of an epoch of one process, whose rows are in no piece's order."""
    if checkpoint is not None and checkpoint.manifest["standing"].get("position") is not None:
        epochs = checkpoint.manifest["standing"]["epoch"] + 1
        raise CheckpointError(
            f"{checkpoint.path} stands in the middle of an epoch of one process, which shuffles rows across files, and "
            f"{way} cannot resume there: finish the epoch first, with --resume --set strategy=single --set "
            f"cluster.pservers=0 --set cluster.trainers=1 --set train.epochs={epochs}, and resume from the checkpoint "
            "at its end, or begin from its weights with --warm-start"
        )


def _differing(now: Job, then: Mapping[str, Any], *, free: frozenset[str]) -> list[str]:
    keys = sorted(_differences(now.model_dump(mode="json"), _completed(then, Job().model_dump(mode="json")), ""))
    return [key for key in keys if not any(key == each or key.startswith(each + ".") for each in free)]


def _completed(then: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    """A job with defaults for keys that its release did not have: they stand for what it did."""
    filled = {key: value for key, value in default.items() if key not in then}
    inner = {
        key: _completed(value, default[key])
        for key, value in then.items()
        if isinstance(value, Mapping) and isinstance(default.get(key), Mapping)
    }
    return {**filled, **then, **inner}


def _differences(now: Any, then: Any, path: str) -> Iterator[str]:
    if isinstance(now, dict) and isinstance(then, dict):
        for key in now.keys() | then.keys():
            yield from _differences(now.get(key), then.get(key), f"{path}.{key}" if path else key)
    elif now != then:
        yield path
