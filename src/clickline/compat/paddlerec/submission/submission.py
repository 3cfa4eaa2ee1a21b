"""A submission folder as it is read: its job, checked, and what its nodes do before and after.

job.sh, config.ini, the hooks and the file that start_cmd names are what counts, edited or not; nothing of them is
executed here. All that is wrong is told at once.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path

from clickline.compat.paddle_environment.communicator_flags import paddle_flags
from clickline.compat.paddlerec.job_files import JobFile, read_job_file
from clickline.compat.paddlerec.submission.config_ini import DATA, MOUNT, ROLE, ConfigIni, read_config_ini
from clickline.compat.paddlerec.submission.generated_files import AFTER, BEFORE
from clickline.compat.paddlerec.submission.node_storage import check_storage
from clickline.compat.paddlerec.submission.start_command import NodeCommand, read_start_command
from clickline.compat.paddlerec.submission.submit_options import LAUNCHERS, SubmitOptions
from clickline.compat.paddlerec.translation.translated_job import job_name
from clickline.config import Job
from clickline.config.loading.suggestions import suggestion
from clickline.errors import ClicklineError, JobError, JobProblem
from clickline.files.storage import is_url
from clickline.train.preflight import check_draft

_OF_BACKEND = "stands in backend.yaml (-b)"
"""What the translation of a config.yaml alone says of counts, which job.sh has here."""


@dataclass(frozen=True, slots=True)
class FetchedData:
    """Data that each node fetches."""

    url: str
    directory: str
    share: bool
    """Whether a node fetches its share of the files only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A folder that can be submitted."""

    options: SubmitOptions
    job: Job
    start: NodeCommand
    config: ConfigIni
    before: str
    after: str
    """Hooks, as they are called in the folder; empty if there is none."""
    data: list[FetchedData]
    upload: str
    saved: str
    """Directory in which PaddleRec has a checkpoint for each epoch; empty for a job of our own."""
    environment: dict[str, str]
    warm_start: str
    storage: dict[str, str] = field(repr=False)
    """Options of the file system: credentials."""
    hidden: frozenset[str]
    """Variables here that hold credentials."""
    notices: list[JobProblem]


def read_submission(
    folder: Path,
    options: SubmitOptions,
    *,
    host_overrides: Sequence[str] = (),
    given: Mapping[str, str] | None = None,
    credentials_file: Path | None = None,
) -> Submission:
    """Read and check a folder. `host_overrides` are keys of the job that say on which hosts it runs.

    `given` are credentials of the file from which the folder was made. Raises JobError with all that is wrong.
    """
    with chdir(folder):
        return _FolderReader(options, host_overrides, given or {}, credentials_file).read()


class _FolderReader:
    """Reads the folder that is the working directory: relative paths in its files mean what they say."""

    def __init__(
        self,
        options: SubmitOptions,
        host_overrides: Sequence[str],
        given: Mapping[str, str],
        credentials_file: Path | None,
    ) -> None:
        self._options, self._host_overrides = options, host_overrides
        self._given, self._credentials_file = given, credentials_file
        self._problems: list[JobProblem] = []
        self._notices: list[JobProblem] = []
        self._config = ConfigIni()

    def read(self) -> Submission:
        options = self._options
        if options.on not in LAUNCHERS:
            known = suggestion(options.on, LAUNCHERS, kind="backends") if options.on else ", ".join(LAUNCHERS)
            self._problems.append(JobProblem("--on", f"no backend {options.on!r} here; expected one of {known}"))
        start = self._start()
        try:
            self._config = read_config_ini(Path(options.job_conf))
        except JobError as error:
            self._note(error)
        stated = {**self._config.credentials, **{key: value for key, value in self._given.items() if value}}
        storage = check_storage(self._config, stated, file=self._credentials_file)
        self._problems += storage.problems
        job_file = None if start is None else self._job_file(start)
        job = None if job_file is None else self._checked(job_file)
        if self._problems or start is None or job is None or job_file is None:
            raise refusal_of(self._problems)
        self._notices[:0] = [notice for notice in job_file.notices if _OF_BACKEND not in notice.message]
        self._notices += self._left_out(job_file)
        train_options = job_file.translated.options if job_file.translated else []
        return Submission(
            options=options,
            job=job,
            start=start,
            config=self._config,
            before=BEFORE if Path(BEFORE).is_file() else "",
            after=AFTER if Path(AFTER).is_file() else "",
            data=list(self._data(job)),
            upload=self._config.url("output_path"),
            saved=job.output if job_file.translated and not is_url(job.output) else "",
            environment={**self._config.environment, **start.environment, ROLE: "WORKER"},
            warm_start="".join(shlex.split(train_options[1])) if train_options[:1] == ["--warm-start"] else "",
            storage=storage.options,
            hidden=storage.credentials.variables,
            notices=self._notices,
        )

    def _note(self, error: ClicklineError) -> None:
        self._problems += error.errors or [JobProblem("", str(error))]

    def _start(self) -> NodeCommand | None:
        try:
            start = read_start_command(self._options.start_cmd)
        except JobError as error:
            self._note(error)
            return None
        if not Path(start.config).is_file():
            names = ", ".join(sorted(path.name for path in Path().glob("*.yaml"))) or "none"
            message = f"names {start.config!r}, which is not among the files; those that end in .yaml: {names}"
            self._problems.append(JobProblem("start_cmd", message))
            return None
        return start

    def _job_file(self, start: NodeCommand) -> JobFile | None:
        options, config = self._options, self._config
        paddle = [*start.paddle_overrides, *options.paddle_overrides]
        try:
            flags = paddle_flags(config.environment)
            read = self._read(start, paddle, [])
            counts = self._counts(read)
            threads = config.environment.get("CPU_NUM", "")
            weak = [f"cluster.threads={threads}"] if threads.isdecimal() and counts else []
            lines = ["train.log_format=paddlerec"] if read.translated else []
            name = [f"name={job_name(options.job_name)}"] if options.job_name else []
            hosts = list(self._host_overrides) if options.on == "ssh" else []
            stronger = [*flags.overrides, *start.overrides, *options.overrides]
            overrides = [*lines, *name, *counts, *weak, *self._placement(read), *hosts, *stronger]
            read = self._read(start, paddle, overrides)
            if options.on == "ssh":
                hosts_counts = _host_counts(read.draft.loaded.job)
                read = self._read(start, paddle, [*overrides, *hosts_counts])
        except JobError as error:
            self._note(error)
            return None
        self._notices += [JobProblem(name, f"has no effect: {reason}") for name, reason in flags.dead.items()]
        return read

    def _read(self, start: NodeCommand, paddle: Sequence[str], overrides: Sequence[str]) -> JobFile:
        return read_job_file(
            start.config,
            overrides=overrides,
            paddle_overrides=paddle,
            directory_name=self._options.model_directory,
        )

    def _counts(self, read: JobFile) -> list[str]:
        """How many processes there are; a job of our own may say it itself."""
        options, job = self._options, read.draft.loaded.job
        if read.translated is None:
            if not options.nodes or {"pservers", "trainers"} & job.cluster.model_fields_set:
                return []
        elif not read.translated.on_nodes and read.translated.runner:
            return []  # a runner of the class train is one process
        servers, trainers = options.nodes or options.servers or 1, options.nodes or options.trainers or 1
        if job.strategy == "collective":
            return [f"cluster.trainers={trainers * max(1, options.gpu_cards)}"]
        return [f"cluster.pservers={servers}", f"cluster.trainers={trainers}"]

    def _placement(self, read: JobFile) -> list[str]:
        """Nodes that fetch their shares of the data have files of their own. Ray may move a trainer to another node."""
        job, on = read.draft.loaded.job, self._options.on
        fetched = is_url(self._config.url("train_data_path"))
        if not fetched or on not in ("ssh", "mpi") or "placement" in job.data.model_fields_set:
            return []
        return [] if job.strategy in ("collective", "single") else ["data.placement=node"]

    def _data(self, job: Job) -> Iterator[FetchedData]:
        for key, directory in DATA.items():
            if url := self._config.url(key):
                share = key == "train_data_path" and job.data.placement == "node"
                yield FetchedData(url, directory, share)
            elif key == "train_data_path" and self._config.platform.get(key) == "" and self._options.on != "kubernetes":
                message = (
                    f"is empty: nothing is fetched, and each node must have ./{directory} by itself, or by {BEFORE}"
                )
                self._notices.append(JobProblem(key, message))
        if self._options.on != "kubernetes" and (url := self._config.url("afs_remote_mount_point")):
            yield FetchedData(url, MOUNT, share=False)

    def _checked(self, job_file: JobFile) -> Job | None:
        try:
            # Data is on the nodes.
            checked = check_draft(job_file.draft, look_for=("model",))
        except ClicklineError as error:
            self._note(error)
            return None
        self._notices += checked.notices
        job, options = checked.job, self._options
        if options.on in ("ssh", "ray", "mpi") and job.resolved_strategy == "single":
            message = f"{options.on} trains in several processes, and this is one: expected class: cluster_train in "
            self._problems.append(JobProblem("strategy", f"{message}config.yaml, or --on local or kubernetes"))
        elif options.on == "ssh" and not job.cluster.hosts:
            self._problems.append(JobProblem("--hosts", "ssh needs a file of hosts, such as `--hosts hostfile`"))
        elif options.on == "ssh" and options.nodes > len(job.cluster.hosts):
            message = f"names {len(job.cluster.hosts)} hosts, and the job wants {options.nodes} nodes: add some"
            self._problems.append(JobProblem("--hosts", message))
        return job

    def _left_out(self, job_file: JobFile) -> Iterator[JobProblem]:
        for other in job_file.others:
            yield JobProblem("mode", f"the runner {other} is not submitted: name it alone in mode, and submit that too")
        if job_file.translated and "--publish" in job_file.translated.options:
            message = "nothing is published on a cluster: `clickline publish RUN --to STORE` does it afterwards"
            yield JobProblem("save_inference_path", message)


def _host_counts(job: Job) -> list[str]:
    """As the hosts have them; one process has no counts, and ranks have no servers."""
    if job.strategy == "single" or not job.cluster.hosts:
        return []
    roles = ("trainers",) if job.strategy == "collective" else ("pservers", "trainers")
    return [f"cluster.{what}={sum(getattr(host, what) for host in job.cluster.hosts)}" for what in roles]


def refusal_of(problems: Sequence[JobProblem]) -> JobError:
    """All that is wrong with a submission as one error."""
    unique = list(dict.fromkeys(problems))
    listed = "\n".join(f"  {problem}" for problem in unique)
    count = "1 error" if len(unique) == 1 else f"{len(unique)} errors"
    return JobError(f"nothing was submitted: {count}\n{listed}", errors=unique)
