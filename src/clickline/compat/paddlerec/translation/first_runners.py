"""Jobs of a config.yaml of PaddleRec 1.8: one for each runner of `mode` that trains."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from pathlib import Path

from clickline.compat.paddlerec.reading.backend_file import Backend
from clickline.compat.paddlerec.reading.config_files import PaddleRecFile
from clickline.compat.paddlerec.reading.first_generation import (
    DatasetSettings,
    FirstConfig,
    PhaseSettings,
    RunnerSettings,
)
from clickline.compat.paddlerec.translation.cluster_keys import put_cluster
from clickline.compat.paddlerec.translation.hyper_keys import HyperKeys, put_frozen
from clickline.compat.paddlerec.translation.job_keys import JobKeys
from clickline.compat.paddlerec.translation.model_files import NAMES
from clickline.compat.paddlerec.translation.model_names import ModelChoice, choose_model
from clickline.compat.paddlerec.translation.row_keys import RowKeys
from clickline.compat.paddlerec.translation.translated_job import TranslatedJob, job_name, train_options
from clickline.compat.paddlerec.translation.workspace_paths import (
    is_packaged,
    last_name,
    substituted,
    workspace_directory,
)
from clickline.config.loading.origins import Path as Keys
from clickline.config.loading.reader import refusal
from clickline.errors import JobError, JobProblem

_KEPT, _ALL = 3, 10_000
"""Checkpoints that a job keeps by default, and at most."""


class FirstTranslation:
    """The jobs of one config.yaml."""

    def __init__(self, file: PaddleRecFile, config: FirstConfig) -> None:
        self._file = file
        self._config = config
        self._to_be_run = False
        """Whether the jobs are run as PaddleRec ran them, so that also what a job cannot carry has its effect."""
        self._datasets = {dataset.name: (number, dataset) for number, dataset in enumerate(config.dataset)}
        self._phases = {phase.name: (number, phase) for number, phase in enumerate(config.phase)}
        try:
            self._directory = workspace_directory(config.workspace, file.path.parent)
        except JobError as error:
            line, _ = file.origins.nearest(("workspace",))
            raise refusal(str(file.path), [JobProblem("workspace", str(error), line)]) from None

    def jobs(self) -> list[TranslatedJob]:
        """A job for each runner of `mode` that trains, in that order; one that only tests if none does."""
        called = self._called()
        training = [(number, runner) for number, runner in called if runner.engine != "infer"]
        testing = [runner for _, runner in called if runner.engine == "infer"]
        jobs = self._all_jobs(training or called[:1], testing)
        if not training:
            line, _ = self._file.origins.nearest(("mode",))
            message = "nothing is trained: test a run of Clickline by `clickline evaluate RUN`"
            jobs[0].notices.append(JobProblem("mode", message, line))
        return jobs

    def jobs_to_run(self) -> list[TranslatedJob]:
        """A job for each runner of `mode`, in that order; those that test are apart from those that train."""
        self._to_be_run = True
        return self._all_jobs(self._called(), ())

    def tested_paths(self, runner: RunnerSettings) -> list[str]:
        """The data of a runner."""
        return list(dict.fromkeys(self._paths([phase for _, phase in self._phases_of(runner)])))

    def saved_in(self, path: str) -> Path:
        """A path of a runner, as a directory."""
        return Path(substituted(path, self._directory))

    def _called(self) -> list[tuple[int, RunnerSettings]]:
        by_name = {runner.name: (number, runner) for number, runner in enumerate(self._config.runner)}
        return [by_name[name] for name in self._config.mode]

    def _all_jobs(
        self, called: Sequence[tuple[int, RunnerSettings]], testing: Sequence[RunnerSettings]
    ) -> list[TranslatedJob]:
        made = [self._job(number, runner, testing) for number, runner in called]
        if problems := list(dict.fromkeys(problem for keys, _ in made for problem in keys.problems)):
            raise refusal(str(self._file.path), problems)
        jobs = [job for _, job in made]
        jobs[0].notices[:0] = self._file.notices
        return jobs

    def _job(
        self, number: int, runner: RunnerSettings, testing: Sequence[RunnerSettings]
    ) -> tuple[JobKeys, TranslatedJob]:
        keys, at = JobKeys(self._file.origins), ("runner", number)
        phases = self._phases_of(runner)
        place, phase = phases[0]
        data_place, dataset = self._datasets[phase.dataset_name]
        choice = self._model(phase)
        if choice.problem:
            keys.refuse(("phase", place, "model"), choice.problem)
        elif choice.notice:
            keys.tell(("phase", place, "model"), choice.notice)
        backend = self._file.backend if runner.engine == "cluster_train" else None
        self._put_run(keys, runner, backend, at)
        self._put_data(keys, runner, phases, testing)
        rows, source = RowKeys(keys, self._config.hyper_parameters, choice), ("dataset", data_place)
        if dataset.sparse_slots or dataset.dense_slots:
            rows.put_slots(dataset, source)
        else:
            reader = Path(substituted(dataset.data_converter, self._directory))
            path = substituted(dataset.data_path, self._directory)
            rows.put_reader(reader, [path], (*source, "data_converter"))
        if runner.save_inference_interval > 0:
            rows.check_feeds(runner.save_inference_feed_varnames, (*at, "save_inference_feed_varnames"))
        HyperKeys(keys, self._config.hyper_parameters, choice).put(
            epochs=runner.epochs, source=("phase", place, "model")
        )
        if runner.engine != "infer":
            threads = max(phase.thread_num for phase in self._config.phase)
            put_cluster(keys, runner, backend, at, threads=threads)
        self._tell(keys, runner, phases, at)
        put_frozen(keys, runner.finetuning_aspect_varnames, (*at, "finetuning_aspect_varnames"))
        publish = runner.save_inference_path if runner.save_inference_interval > 0 else ""
        given = runner.init_model_path or runner.init_pretraining_model_path
        warm_start = substituted(given, self._directory) if given else ""
        options = train_options(warm_start=warm_start, publish=publish)
        on_nodes = runner.engine == "cluster_train"
        return keys, TranslatedJob(runner.name, keys.tree, keys.notices, options, on_nodes)

    def _phases_of(self, runner: RunnerSettings) -> list[tuple[int, PhaseSettings]]:
        return [self._phases[name] for name in runner.phases or self._phases]

    def _model(self, phase: PhaseSettings) -> ModelChoice:
        config, file = self._config, Path(substituted(phase.model, self._directory))
        files = [file, *(self._directory / name for name in NAMES if name != file.name)]
        names = [last_name(config.workspace), file.resolve().parent.name, self._file.path.resolve().parent.name]
        names.append(self._file.directory_name)
        asked = config.hyper_parameters.model if config.hyper_parameters else None
        return choose_model(
            asked=asked,
            names=names,
            hyper=config.hyper_parameters,
            files=files,
            packaged=is_packaged(config.workspace),
        )

    def _put_run(self, keys: JobKeys, runner: RunnerSettings, backend: Backend | None, at: Keys) -> None:
        keys.put("name", job_name(backend.submit.job_name if backend else runner.name), (*at, "name"))
        if runner.save_checkpoint_path:
            path = substituted(runner.save_checkpoint_path, self._directory)
            keys.put("output", path, (*at, "save_checkpoint_path"))
        if runner.engine == "infer":
            return
        keys.put("train.epochs", runner.epochs, (*at, "epochs"))
        keys.put("train.log_every", runner.print_interval, (*at, "print_interval"))
        interval = max(0, runner.save_checkpoint_interval)
        if self._to_be_run:
            # An inference model is made of a checkpoint, so there is one wherever either is due.
            interval = gcd(interval, max(0, runner.save_inference_interval))
        keys.put("checkpoint.every_epochs", interval, (*at, "save_checkpoint_interval"))
        kept = -(-runner.epochs // interval) if interval else 0
        if runner.save_step_interval > 0:
            keys.put("checkpoint.every_steps", runner.save_step_interval, (*at, "save_step_interval"))
            kept = _ALL if self._to_be_run and runner.save_step_path else kept
        if kept > _KEPT:
            keys.put("checkpoint.keep", kept, (*at, "save_checkpoint_interval"))

    def _put_data(
        self,
        keys: JobKeys,
        runner: RunnerSettings,
        phases: Sequence[tuple[int, PhaseSettings]],
        testing: Sequence[RunnerSettings],
    ) -> None:
        first = self._datasets[phases[0][1].dataset_name][0]
        source = ("dataset", first, "data_path")
        if runner.engine != "infer":
            keys.put("data.train", self._paths([phase for _, phase in phases]), source)  # in the order of phases
            batch = self._config.dataset[first].batch_size
            keys.put("train.batch_size", batch, ("dataset", first, "batch_size"))
            # PaddleRec trains on rows in the order of the log, unless it has them all in memory.
            if self._config.dataset[first].type != "inmemorydataset":
                keys.put("data.shuffle_rows", 0, ("dataset", first, "type"))
        testing = testing or ([runner] if runner.engine == "infer" else [])
        tested = [phase for one in testing for _, phase in self._phases_of(one)]
        if tested:
            keys.put("data.test", list(dict.fromkeys(self._paths(tested))), ("dataset", first, "data_path"))
        for one in testing:
            if one.init_model_path and runner.engine != "infer":
                keys.tell(
                    ("mode",), f"the runner {one.name} tests what this run has trained, not {one.init_model_path}"
                )

    def _paths(self, phases: Sequence[PhaseSettings]) -> list[str]:
        datasets: list[DatasetSettings] = [self._datasets[phase.dataset_name][1] for phase in phases]
        return [substituted(dataset.data_path, self._directory) for dataset in datasets]

    def _tell(
        self, keys: JobKeys, runner: RunnerSettings, phases: Sequence[tuple[int, PhaseSettings]], at: Keys
    ) -> None:
        keys.tell_not_carried(self._config, ())
        keys.tell_not_carried(runner, at)
        for number, phase in phases:
            keys.tell_not_carried(phase, ("phase", number))
            place, dataset = self._datasets[phase.dataset_name]
            keys.tell_not_carried(dataset, ("dataset", place))
            if phase.model != phases[0][1].model:
                keys.tell(("phase", number, "model"), f"not carried: a job has one model, that of {phases[0][1].name}")
            if dataset.batch_size != self._datasets[phases[0][1].dataset_name][1].batch_size:
                keys.tell(("dataset", place, "batch_size"), "not carried: a job has one, that of the first phase")
        if self._to_be_run:
            return
        for name in ("save_step_path", "runner_result_dump_path"):
            if getattr(runner, name):
                keys.tell(
                    (*at, name), "not carried: what a run leaves is in its own directory; `clickline run` has both"
                )
        for name in ("init_model_path", "init_pretraining_model_path"):
            if getattr(runner, name) and runner.engine != "infer":
                keys.tell((*at, name), "given to `clickline train --warm-start`: a run of Clickline, not of Paddle")
