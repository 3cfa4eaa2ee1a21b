"""The runners of a config.yaml, one after the other: what fails ends the sequence.

Training itself is given by the caller, which knows how processes are started. What is said is in PaddleRec's words, for
programs that read its log.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from clickline.compat.paddlerec.reading.config_files import PaddleRecFile
from clickline.compat.paddlerec.reading.first_generation import FirstConfig
from clickline.compat.paddlerec.running.run_plans import (
    InferPlan,
    SavePlan,
    first_infer_plan,
    first_save_plan,
    flat_infer_plan,
    flat_save_plan,
)
from clickline.compat.paddlerec.running.runner_outputs import infer_epochs, save_outputs
from clickline.compat.paddlerec.translation.first_runners import FirstTranslation
from clickline.compat.paddlerec.translation.flat_runner import FlatTranslation
from clickline.compat.paddlerec.translation.translated_job import TranslatedJob
from clickline.config import Job
from clickline.config.loading.origins import Path as Keys
from clickline.config.loading.origins import key_text
from clickline.config.loading.reader import draft_of, refusal
from clickline.errors import JobError, JobProblem
from clickline.progress import Watcher
from clickline.train.checkpoints import checkpoint_manifest
from clickline.train.preflight import check_draft
from clickline.train.run_files.run_directory import find_checkpoint
from clickline.train.run_files.run_result import Result

_LINES = "train.log_format=paddlerec"


class TrainFunction(Protocol):
    """How a job is trained here."""

    def __call__(
        self, job: Job, *, fresh: bool, warm_start: Path | None, watcher: Watcher | None, checked: bool
    ) -> Result: ...


@dataclass(frozen=True, slots=True)
class RunnerOutcome:
    """What a runner has done."""

    runner: str
    engine: str
    checkpoint: str = ""
    """The run's, of one that trains."""
    saved: list[str] = field(default_factory=list)
    """Directories and files in the places that config.yaml names."""
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    """On test data: by the name of the epoch's directory."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One runner with its job, checked: it trains and saves, or tests."""

    job: Job
    translated: TranslatedJob
    engine: str
    save: SavePlan | None = None
    test: InferPlan | None = None
    warm_start: Path | None = None


class RunnerSequence:
    """All runners of a config.yaml; of the flat generation, its one runner, which trains or tests."""

    def __init__(
        self,
        file: PaddleRecFile,
        *,
        train: TrainFunction,
        watcher: Watcher,
        overrides: Sequence[str] = (),
        infer: bool = False,
    ) -> None:
        """Translate and check all of them, before the first begins. Raises JobError, or DataError for missing data.

        `infer`: the file of the flat generation is tested, as PaddleRec's infer.py does it, and not trained.
        """
        self._file, self._train, self._watcher, self._overrides = file, train, watcher, overrides
        self._trained: Path | None = None
        """What the last runner that trained has left."""
        if not isinstance(file.config, FirstConfig):
            translation = FlatTranslation(file, file.config)
            (job,) = translation.jobs_to_run(infer=infer)
            self._steps = [self._flat_step(translation, job, infer=infer)]
        elif infer:
            raise JobError(f"{file.path}: --infer is for files with one runner; name runners of class infer in `mode`")
        else:
            self._steps = self._first_steps(FirstTranslation(file, file.config), file.config)

    @property
    def notices(self) -> list[JobProblem]:
        """What is other than it was, of all runners."""
        return list(dict.fromkeys(notice for step in self._steps for notice in step.translated.notices))

    def run(self) -> list[RunnerOutcome]:
        """Run them. What a runner raises ends the sequence."""
        outcomes = []
        for step in self._steps:
            name = step.translated.runner or step.job.name
            self._watcher.say(f"PaddleRec: Runner {name} Begin")
            outcomes.append(self._infer(step, step.test) if step.test is not None else self._train_one(step))
        self._watcher.say("PaddleRec Finish")
        return outcomes

    def _first_steps(self, translation: FirstTranslation, config: FirstConfig) -> list[_Step]:
        steps: list[_Step] = []
        places = {runner.name: (number, runner) for number, runner in enumerate(config.runner)}
        for job in translation.jobs_to_run():
            number, runner = places[job.runner]
            at = ("runner", number)
            if runner.engine == "cluster_train":
                message = f"the runner {runner.name} is for a cluster: -b backend.yaml submits it; "
                message += "local_cluster_train runs as many processes here"
                raise self._refusal((*at, "class"), message)
            if runner.engine == "infer":
                # Without a path, PaddleRec tests what the runner before has trained.
                trains = any(step.save is not None for step in steps)
                if not runner.init_model_path and not trains:
                    message = "missing; no runner before it has trained anything to test"
                    raise self._refusal((*at, "init_model_path"), message)
                plan = first_infer_plan(translation, runner)
                steps.append(_Step(self._checked(job, training=False), job, runner.engine, test=plan))
                continue
            given = runner.init_model_path or runner.init_pretraining_model_path
            save, warm_start = first_save_plan(translation, runner), translation.saved_in(given) if given else None
            steps.append(_Step(self._checked(job, training=True), job, runner.engine, save, None, warm_start))
        return steps

    def _flat_step(self, translation: FlatTranslation, job: TranslatedJob, *, infer: bool) -> _Step:
        assert not isinstance(self._file.config, FirstConfig)  # noqa: S101 - the other generation, for mypy
        runner = self._file.config.runner
        if not infer:
            given = runner.model_init_path or runner.warmup_model_path
            checked, warm_start = self._checked(job, training=True), Path(given) if given else None
            return _Step(checked, job, "train", flat_save_plan(runner), None, warm_start)
        if not translation.tested_paths():
            raise self._refusal(("runner", "test_data_dir"), "missing; there is nothing to test on")
        return _Step(self._checked(job, training=False), job, "infer", test=flat_infer_plan(translation, runner))

    def _checked(self, translated: TranslatedJob, *, training: bool) -> Job:
        draft = draft_of(translated.tree, self._file.path, overrides=[_LINES, *self._overrides])
        check_draft(draft, training=training)
        return draft.loaded.job

    def _refusal(self, keys: Keys, message: str) -> JobError:
        line, _ = self._file.origins.nearest(keys)
        return refusal(str(self._file.path), [JobProblem(key_text(keys), message, line)])

    def _train_one(self, step: _Step) -> RunnerOutcome:
        warm_start = self._begun_with(step)
        result = self._train(step.job, fresh=True, warm_start=warm_start, watcher=self._watcher, checked=True)
        self._trained = result.checkpoint
        saved = [] if step.save is None else save_outputs(step.save, result, watcher=self._watcher)
        figures = {"test": result.test} if result.test else {}
        name = step.translated.runner
        return RunnerOutcome(name, step.engine, str(result.checkpoint), [str(path) for path in saved], figures)

    def _begun_with(self, step: _Step) -> Path | None:
        """The checkpoint to begin with. A run that begins with its own past is put aside first, as it starts over."""
        if (path := step.warm_start) is None:
            return None
        directory = Path(step.job.output) / step.job.name
        found = find_checkpoint(path).path.resolve() if not path.is_symlink() else path.resolve()
        if directory.resolve() not in found.parents:
            return found
        # Renamed, not copied: a run starts over in an empty directory, and its checkpoint may be large.
        before = directory.with_name(f"{directory.name}.before")
        _remove(before)
        place = found.relative_to(directory.resolve())
        directory.rename(before)
        return before / place

    def _infer(self, step: _Step, plan: InferPlan) -> RunnerOutcome:
        figures = infer_epochs(plan, self._trained, watcher=self._watcher)
        saved = [] if plan.results is None else [str(plan.results)]
        return RunnerOutcome(step.translated.runner, step.engine, saved=saved, figures=figures)


def _remove(run: Path) -> None:
    """Remove a run that was put aside before; anything else in its place stays."""
    if (run / "checkpoints").is_dir() and checkpoint_manifest.find(run / "checkpoints"):
        shutil.rmtree(run)
