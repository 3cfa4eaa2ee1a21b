"""The job of a config.yaml of PaddleRec's last years: one flat runner."""

from __future__ import annotations

from pathlib import Path

from clickline.compat.paddlerec.reading.config_files import PaddleRecFile
from clickline.compat.paddlerec.reading.flat_generation import FlatConfig
from clickline.compat.paddlerec.translation.cluster_keys import ON_CPU
from clickline.compat.paddlerec.translation.hyper_keys import HyperKeys
from clickline.compat.paddlerec.translation.job_keys import JobKeys
from clickline.compat.paddlerec.translation.model_files import NAMES
from clickline.compat.paddlerec.translation.model_names import ModelChoice, choose_model
from clickline.compat.paddlerec.translation.row_keys import RowKeys
from clickline.compat.paddlerec.translation.translated_job import TranslatedJob, job_name, train_options
from clickline.compat.paddlerec.translation.workspace_paths import last_name, seen_from
from clickline.config.loading.reader import refusal

_AT = ("runner",)
_IN_GPUS = ("heter", "gpubox", "paddlebox")
_KEPT = 3
"""Checkpoints that a job keeps by default."""


class FlatTranslation:
    """The job of one config.yaml."""

    def __init__(self, file: PaddleRecFile, config: FlatConfig) -> None:
        self._file = file
        self._config = config
        self._runner = config.runner
        self._directory = file.path.parent
        self._keys = JobKeys(file.origins)
        self._to_be_run = self._infer = False

    def jobs_to_run(self, *, infer: bool) -> list[TranslatedJob]:
        """The one job there is, to be run as PaddleRec ran it; `infer`: to be tested only."""
        self._to_be_run, self._infer = True, infer
        return self.jobs()

    def tested_paths(self) -> list[str]:
        """The data to test on."""
        given = self._runner.test_data_dir or self._runner.infer_data_dir
        return [self._path(given)] if given else []

    def jobs(self) -> list[TranslatedJob]:
        """The one job there is."""
        keys, runner, hyper = self._keys, self._runner, self._config.hyper_parameters
        keys.notices += self._file.notices
        choice = self._model()
        if choice.problem:
            keys.refuse(("hyper_parameters",), choice.problem)
        elif choice.notice:
            keys.tell(("hyper_parameters",), choice.notice)
        keys.put("name", job_name(choice.paddle_name or self._directory.resolve().name), _AT)
        keys.put("output", runner.model_save_path, (*_AT, "model_save_path"))
        self._put_data()
        reader = self._reader(runner.train_reader_path or "reader")
        rows = RowKeys(keys, hyper, choice)
        rows.put_reader(reader, self._train_paths, (*_AT, "train_reader_path"))
        if runner.use_inference:
            rows.check_feeds(runner.save_inference_feed_varnames, (*_AT, "save_inference_feed_varnames"))
        HyperKeys(keys, hyper, choice).put(epochs=runner.epochs, source=("hyper_parameters",))
        self._put_run()
        self._tell()
        if keys.problems:
            raise refusal(str(self._file.path), keys.problems)
        warm_start = runner.model_init_path or runner.warmup_model_path
        publish = runner.model_save_path + "/versions" if runner.use_inference else ""
        options = train_options(warm_start=warm_start, publish=publish)
        return [TranslatedJob("", keys.tree, keys.notices, options)]

    def _model(self) -> ModelChoice:
        config, directory = self._config, self._directory
        names = [last_name(config.workspace)] if config.workspace else []
        names += [directory.resolve().name, self._file.directory_name]
        files = [directory / name for name in NAMES]
        hyper = config.hyper_parameters
        return choose_model(asked=hyper.model, names=names, hyper=hyper, files=files, packaged=False)

    @property
    def _train_paths(self) -> list[str]:
        return [self._path(path) for path in self._runner.train_data_dir]

    def _path(self, path: str) -> str:
        workspace = self._config.workspace
        return seen_from(path.replace("{workspace}", workspace) if workspace else path, self._directory)

    def _reader(self, name: str) -> Path:
        """PaddleRec names it as a module: criteo_reader, or a.b for a/b.py."""
        file = name if name.endswith(".py") else name.replace(".", "/") + ".py"
        return Path(self._path(file))

    def _put_data(self) -> None:
        keys, runner = self._keys, self._runner
        keys.put("data.train", self._train_paths, (*_AT, "train_data_dir"))
        if paths := self.tested_paths():
            keys.put("data.test", paths, (*_AT, "test_data_dir" if runner.test_data_dir else "infer_data_dir"))
        if runner.reader_type != "inmemorydataset":
            # The others train on rows in the order of the log.
            keys.put("data.shuffle_rows", 0, (*_AT, "reader_type"))
        loader = self._config.loader
        if (workers := max(runner.num_workers, loader.num_workers if loader else 0)) > 1:
            keys.put("data.threads", workers, (*_AT, "num_workers"))

    def _put_run(self) -> None:
        keys, runner = self._keys, self._runner
        keys.put("train.epochs", runner.epochs, (*_AT, "epochs"))
        keys.put("train.batch_size", runner.train_batch_size, (*_AT, "train_batch_size"))
        keys.put("train.log_every", runner.print_interval, (*_AT, "print_interval"))
        if runner.use_visual is not None:
            keys.put("train.tensorboard", runner.use_visual, (*_AT, "use_visual"))
        if runner.epochs > _KEPT:
            keys.put("checkpoint.keep", runner.epochs, (*_AT, "epochs"))
        threads = max(runner.thread_num, runner.train_thread_num or 1)
        if runner.use_fleet:
            keys.put("strategy", "collective", (*_AT, "use_fleet"))
            keys.put("cluster.threads", threads, (*_AT, "thread_num"))
            keys.tell((*_AT, "use_fleet"), "one rank: give as many as there were GPUs by cluster.trainers")
        else:
            keys.put("threads", threads, (*_AT, "thread_num"))

    def _tell(self) -> None:
        keys, runner, given = self._keys, self._runner, self._runner.model_fields_set
        keys.tell_not_carried(runner, _AT)
        keys.tell_not_carried(self._config, ())
        if runner.use_gpu:
            keys.tell((*_AT, "use_gpu"), ON_CPU)
        for name in ("use_xpu", "use_npu"):
            if getattr(runner, name):
                keys.tell((*_AT, name), f"not carried: {ON_CPU}")
        if runner.sync_mode in _IN_GPUS:
            nearest = "strategy=async, cluster.pservers and cluster.trainers"
            keys.tell(
                (*_AT, "sync_mode"), f"not carried: {runner.sync_mode} keeps rows in GPUs; with servers: {nearest}"
            )
        elif runner.sync_mode is not None:
            steps = f", cluster.agree.geo_steps={runner.geo_step}" if runner.geo_step else ""
            keys.tell(
                (*_AT, "sync_mode"),
                f"one process, as without fleetrun; with servers: strategy={runner.sync_mode}, cluster.pservers and "
                f"cluster.trainers as fleetrun has --server_num and --worker_num{steps}",
            )
        if runner.pipe_command and runner.pipe_command.strip() != "cat":
            keys.tell((*_AT, "pipe_command"), "not carried: the text is read as it is, in native code")
        tested = range(runner.infer_start_epoch or 0, runner.infer_end_epoch or 0)
        if len(tested) > 1 and not self._infer:
            message = "the last epoch is tested; all of them by `clickline run --infer`"
            keys.tell((*_AT, "infer_start_epoch"), message)
        for name in ("model_init_path", "warmup_model_path"):
            if name in given and getattr(runner, name) and not self._to_be_run:
                keys.tell((*_AT, name), "given to `clickline train --warm-start`: a run of Clickline, not of Paddle")
