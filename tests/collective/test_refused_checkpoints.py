"""What ranks or servers cannot go on from is said on the terminal with exit code 6, before any of them is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clickline.config import Job
from clickline.train.session import train_job
from support.made_once import made_once
from support.processes import run, small_settings, write_job

CLUSTERS = {"collective": {"trainers": 2, "threads": 1}, "async": {"pservers": 1, "trainers": 1, "threads": 1}}


@pytest.fixture(scope="module")
def halfway(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of one process in the middle of an epoch."""

    def train(directory: Path) -> None:
        settings = small_settings(criteo, directory)
        train_job(Job.model_validate({**settings, "train": {"batch_size": 100, "max_steps": 5}}))

    directory = made_once(tmp_path_factory, "halfway", train)
    return next((directory / "runs" / "small" / "checkpoints").glob("step-*"))


def damaged(checkpoint: Path, into: Path) -> Path:
    """A copy with one byte changed."""
    into.mkdir()
    for file in checkpoint.iterdir():
        content = bytearray(file.read_bytes())
        if file.suffix == ".rows":
            content[-1] ^= 1
        (into / file.name).write_bytes(content)
    return into


REFUSALS: dict[str, tuple[Callable[[Path, Path], list[Any]], str]] = {
    "there is a run": (lambda found, _: [], "already holds 1 checkpoint(s)"),
    "nothing to resume": (lambda found, _: ["--resume", "--set", "name=other"], "has no checkpoint to resume from"),
    "within an epoch": (lambda found, _: ["--resume"], "stands in the middle of an epoch of one process"),
    "another job": (lambda found, _: ["--resume", "--set", "train.batch_size=50"], "train.batch_size differ"),
    "no such start": (lambda found, _: ["--set", "name=other", "--warm-start", found.parent / "none"], "neither a run"),
    "damaged": (
        lambda found, place: ["--set", "name=other", "--warm-start", damaged(found, place / "step-0000000005")],
        "SHA-256",
    ),
}


@pytest.mark.parametrize("strategy", CLUSTERS)
@pytest.mark.parametrize("why", REFUSALS)
def test_a_checkpoint_that_cannot_be_resumed_is_refused_on_the_terminal(
    why: str, strategy: str, halfway: Path, criteo: dict[str, str], tmp_path: Path
) -> None:
    options, message = REFUSALS[why]
    directory = halfway.parent.parent.parent.parent
    settings = small_settings(criteo, directory) | {"strategy": strategy, "cluster": CLUSTERS[strategy]}
    settings |= {"train": {"batch_size": 100, "epochs": 1}}
    settings.pop("threads")
    done = run("train", write_job(tmp_path / "job.yaml", settings), *options(halfway, tmp_path))
    assert done.returncode == (1 if why == "no such start" else 6), done.stderr
    assert message in done.stderr
    assert "trainer.0" not in done.stderr
    assert "{" not in done.stderr
