"""What a run of one process leaves behind, to be compared with what it leaves with one key changed."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from clickline.errors import ClicklineError
from clickline.launch.local.training_run import train_job
from clickline.train.checkpoints import checkpoint_files
from support.key_effects.cells import draft_of, overrides_of

_known: dict[tuple[str, ...], dict[str, Any]] = {}
"""Runs without the key, which most keys share."""
_TIMES = ("seconds", "rows_per_second", "time", "directory", "checkpoint", "path", "data")


@contextmanager
def _parsing_threads() -> Iterator[list[str]]:
    """Names of the threads that are started to parse meanwhile."""
    names: list[str] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        if thread.name.startswith("clickline-parse"):
            names.append(thread.name)
        start(thread)

    threading.Thread.start = noted  # type: ignore[method-assign]
    try:
        yield names
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


@contextmanager
def _quiet() -> Iterator[None]:
    """No lines of progress meanwhile."""
    logger = logging.getLogger("clickline")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def difference(base: Path, key: str, scratch: Path) -> str | None:
    """What differs when the key is changed, in words; None if nothing does."""
    unchanged = tuple(overrides_of(key, "single", changed=False))
    before = _known.get(unchanged)
    if before is None:
        before = _known[unchanged] = observed(base, key, scratch / "before", changed=False)
    after = observed(base, key, scratch / "after", changed=True)
    return next((f"{what} differs" for what in after if after[what] != before.get(what)), None)


def observed(base: Path, key: str, scratch: Path, *, changed: bool) -> dict[str, Any]:
    """What a run of the job comes to: its error, or its figures, weights, files and threads."""
    job = draft_of(base, key, "single", changed=changed).loaded.job
    place = scratch / job.output
    try:
        with _parsing_threads() as parsing, _quiet():
            result = train_job(job.model_copy(update={"output": str(place)}), checked=True)
    except ClicklineError as error:
        return {"the error": str(error)}
    lines = [json.loads(line) for line in (result.directory / "metrics.jsonl").read_text().splitlines()]
    found = checkpoint_files.find(result.directory / "checkpoints")
    return {
        "the directory": (job.output, job.name),
        "the test figures": _plain(result.test),
        "a line of metrics": [_plain(line) for line in lines],
        "the weights": [_digest(checkpoint) for checkpoint in found],
        "the files": sorted({path.name.split(".tfevents")[0] for path in result.directory.rglob("*")}),
        "the threads of PyTorch": torch.get_num_threads(),
        "the threads that parse": len(parsing),
    }


def _digest(checkpoint: checkpoint_files.Checkpoint) -> str:
    whole = hashlib.sha256()
    for name, facts in sorted(checkpoint.manifest["files"].items()):
        whole.update(f"{name} {facts['sha256']}".encode())
    return whole.hexdigest()


def _plain(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if name not in _TIMES}
