"""What a runner of either generation saves and tests, as plain paths and epochs.

Epochs count from 0, as in PaddleRec: an epoch is saved if its number, counted from 1, is a multiple of the interval,
and the last one always is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clickline.compat.paddlerec.reading.first_generation import RunnerSettings
from clickline.compat.paddlerec.reading.flat_generation import FlatRunner
from clickline.compat.paddlerec.translation.first_runners import FirstTranslation
from clickline.compat.paddlerec.translation.flat_runner import FlatTranslation

VERSIONS = "versions"
"""The store of versions below model_save_path of the flat generation."""


@dataclass(frozen=True, slots=True)
class SavePlan:
    """Where a runner that trains saves; None where it does not."""

    epochs: int
    checkpoints: Path | None = None
    checkpoint_interval: int = 1
    steps: Path | None = None
    inference: Path | None = None
    inference_interval: int = 1
    results: Path | None = None

    def is_due(self, epoch: int, interval: int) -> bool:
        """Whether an epoch is saved at an interval; one of 0 or less is the last epoch alone."""
        return epoch + 1 == self.epochs or (interval > 0 and (epoch + 1) % interval == 0)


@dataclass(frozen=True, slots=True)
class InferPlan:
    """What a runner that tests loads and reads."""

    load: Path | None
    """A checkpoint, or a directory with one for each epoch; None for what was trained just before."""
    data: list[str]
    title: str
    """What is tested, in PaddleRec's line about it; empty in the flat generation."""
    first: int = 0
    last: int | None = None
    """The epoch after the last one to test; None for all there are."""
    results: Path | None = None


def first_save_plan(translation: FirstTranslation, runner: RunnerSettings) -> SavePlan:
    """Of a runner of PaddleRec 1.8."""

    def place(path: str) -> Path | None:
        return translation.saved_in(path) if path else None

    saves_steps, saves_inference = runner.save_step_interval > 0, runner.save_inference_interval > 0
    return SavePlan(
        epochs=runner.epochs,
        checkpoints=place(runner.save_checkpoint_path),
        checkpoint_interval=runner.save_checkpoint_interval,
        steps=place(runner.save_step_path) if saves_steps else None,
        inference=place(runner.save_inference_path) if saves_inference else None,
        inference_interval=runner.save_inference_interval,
        results=place(runner.runner_result_dump_path),
    )


def flat_save_plan(runner: FlatRunner) -> SavePlan:
    """Of the flat generation, which saves every epoch."""
    path = Path(runner.model_save_path)
    results = runner.runner_result_dump_path
    return SavePlan(
        epochs=runner.epochs,
        checkpoints=path,
        inference=path / VERSIONS if runner.use_inference else None,
        results=Path(results) if results else None,
    )


def first_infer_plan(translation: FirstTranslation, runner: RunnerSettings) -> InferPlan:
    """Of an infer runner of PaddleRec 1.8."""
    load, results = runner.init_model_path, runner.runner_result_dump_path
    return InferPlan(
        load=translation.saved_in(load) if load else None,
        data=translation.tested_paths(runner),
        title=", ".join(runner.phases) or "all phases",
        results=translation.saved_in(results) if results else None,
    )


def flat_infer_plan(translation: FlatTranslation, runner: FlatRunner) -> InferPlan:
    """Of infer.py of the flat generation."""
    results = runner.runner_result_dump_path
    return InferPlan(
        load=Path(runner.infer_load_path or runner.model_save_path),
        data=translation.tested_paths(),
        title="",
        first=runner.infer_start_epoch or 0,
        last=runner.infer_end_epoch,
        results=Path(results) if results else None,
    )
