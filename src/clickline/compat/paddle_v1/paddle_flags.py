"""Flags of PaddlePaddle v1's paddle.py, translated: what they set in our job, and what stands in place of the others.

paddle.py knew two flags of its own and handed every other one to the trainers, where a misspelt one had no effect or
ended the run on all hosts. Here every flag is known, or refused with what is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clickline.config.loading.suggestions import suggestion
from clickline.errors import JobError

_JOB_FILES = (".yaml", ".yml")
_FALSE = ("0", "false", "f", "no", "n")
LIVE: Mapping[str, str] = {
    "num_passes": "train.epochs",
    "log_period": "train.log_every",
    "saving_period": "checkpoint.every_epochs",
    "saving_period_by_batches": "checkpoint.every_steps",
    "trainer_count": "cluster.threads",
    "port": "cluster.port",
    "seed": "seed",
}
"""Flags whose whole number is the value of a key."""
SPECIAL: Mapping[str, str] = {
    "job_dispatch_package": "--workspace: a directory that is sent to each host",
    "job_workspace": "--job-workspace: a directory that each host has already",
    "conf": "--hosts: a conf.py, hostfile or YAML; ./conf.py if there is one, else the job's own cluster.hosts",
    "async_count": "strategy: sync if 0, else async",
    "start_pass": "--resume if it is not 0: the newest checkpoint tells which pass is next",
    "init_model_path": "nothing: parameters of v1 do not fit; --resume goes on with a run of ours",
    "config": "nothing: the job file, which describes data and model, replaces trainer_config.py",
    "use_gpu": "must be 0: models are computed on the CPU",
    "local": "must be 0: without hosts, `clickline train JOB` trains on this machine",
    "job": "must be train: `clickline evaluate` tests",
    "save_dir": "nothing: passes are in `output` of the job's directory on the first host",
}
"""Flags with a meaning of their own, and what it is."""
WITHOUT_EFFECT: Mapping[str, str] = {
    "dot_period": "a progress line takes the place of dots",
    "ports_num": "a server has one port",
    "ports_num_for_sparse": "a server has one port, for sparse tables too",
    "nics": "servers listen on the addresses of the hosts; cluster.hosts[].address gives another",
    "rdma_tcp": "processes talk by TCP",
    "comment": "a job's processes are found by its record, not by their command lines",
    "num_gradient_servers": "there are as many trainers as the hosts have",
    "pservers": "the servers are those of the hosts",
    "trainer_id": "each process is told its rank",
    "start_pserver": "each host has a server",
    "log_period_server": "servers log what happens, not every so often",
    "pserver_num_threads": "a server's threads follow from the host's cores",
    "sock_send_buf_size": "the system chooses",
    "sock_recv_buf_size": "the system chooses",
    "small_messages": "the system chooses",
    "parameter_block_size": "tables are cut by keys, not into blocks",
    "parameter_block_size_for_sparse": "tables are cut by keys, not into blocks",
    "loadsave_parameters_in_pserver": "servers always save what they hold",
    "async_lagged_ratio_min": "cluster.agree.max_staleness drops gradients that come late",
    "async_lagged_ratio_default": "cluster.agree.max_staleness drops gradients that come late",
    "log_barrier_abstract": "`clickline status` shows who is slow",
    "log_error_clipping": "train.optimizer.clip clips, without a line for each",
    "show_parameter_stats_period": "`clickline checkpoint show` counts what a checkpoint holds",
    "show_layer_stat": "`clickline checkpoint show` counts what a checkpoint holds",
    "save_only_one": "checkpoint.keep says how many are kept",
    "test_period": "data.valid is evaluated after each epoch",
    "test_all_data_in_one_period": "data.valid is evaluated after each epoch, all of it",
}
"""Flags that are understood and change nothing, and why."""
CONFIG_MESSAGE = (
    "--config={value} is not read: in place of trainer_config.py, the job file has the model in its section `model` "
    "and the optimizer in `train` and `tables` (docs/migrating-from-paddle-v1.md#trainer_configpy)"
)
PROVIDER_MESSAGE = (
    "{path} is not run: in place of dataprovider.py, the job file has the data in its sections `data` and `features`, "
    "and data.format can name a reader of your own (docs/migrating-from-paddle-v1.md#dataproviderpy)"
)


@dataclass(slots=True)
class PaddleFlags:
    """A command line of paddle.py as options of ours."""

    overrides: list[str] = field(default_factory=list)
    """For --set, in their order."""
    notices: list[str] = field(default_factory=list)
    """What was given in vain, and why."""
    package: Path | None = None
    """The workspace to send."""
    workspace: str = ""
    """The workspace that is on each host."""
    conf: Path | None = None
    job: str = ""
    """The job file: the one argument that is not a flag."""
    resume: bool = False


def read_paddle_flags(arguments: Sequence[str]) -> PaddleFlags:
    """Translate --name=value, --name value and --set KEY=VALUE; dashes in names count as underscores.

    A word that is neither a flag nor its value is the job file. Raises JobError that lists every problem.
    """
    flags, problems = PaddleFlags(), []
    for name, value in _pairs(arguments):
        try:
            _take(flags, name, value)
        except ValueError as error:
            problems.append(str(error))
    if not flags.job:
        problems.append("no job file is given, such as `clickline paddle-v1 job.yaml --job_dispatch_package=DIR`")
    if not problems and (flags.package is None) == (not flags.workspace):
        problems.append(
            "one of --job_dispatch_package=DIR (sent to each host) and --job_workspace=DIR (on each host already) "
            "must be given, not both"
        )
    if problems:
        raise JobError("\n".join(problems))
    if flags.package is not None and (flags.package / "dataprovider.py").is_file():
        flags.notices.append(PROVIDER_MESSAGE.format(path=flags.package / "dataprovider.py"))
    return flags


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and values. A flag without a value is one that is switched on."""
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not name.startswith("-"):
            yield "", word
            continue
        if not equals:
            has_value = bool(rest) and not rest[0].startswith("-")
            # A switch may stand before the job file. Only conf can have YAML as its value.
            is_job = has_value and rest[0].endswith(_JOB_FILES) and name.lstrip("-") != "conf"
            value = rest.pop(0) if has_value and not is_job else "1"
        yield name.lstrip("-").replace("-", "_"), value


def _take(flags: PaddleFlags, name: str, value: str) -> None:
    """Put one flag where it belongs. Raises ValueError, which says what was expected."""
    match name:
        case "":
            if flags.job:
                raise ValueError(f"{value!r} is one argument too many: {flags.job} is the job file")
            flags.job = value
        case "set":
            if "=" not in value:
                raise ValueError(f"--set {value} is not KEY=VALUE, such as --set train.batch_size=512")
            flags.overrides.append(value)
        case "job_dispatch_package":
            flags.package = Path(value)
            if not flags.package.is_dir():
                raise ValueError(f"--job_dispatch_package={value}: there is no such directory here")
        case "job_workspace":
            flags.workspace = value
        case "conf":
            flags.conf = Path(value)
        case "async_count":
            flags.overrides.append(f"strategy={'async' if _number(name, value) else 'sync'}")
        case "config":
            flags.notices.append(CONFIG_MESSAGE.format(value=value))
        case "save_dir":
            flags.notices.append(f"--save_dir={value} has no effect: {SPECIAL[name].removeprefix('nothing: ')}")
        case "use_gpu" | "local":
            if value.lower() not in _FALSE:
                raise ValueError(f"--{name}={value}: {SPECIAL[name]}")
        case "job":
            if value != "train":
                raise ValueError(f"--job={value}: {SPECIAL[name]}")
        case "start_pass":
            flags.resume = _number(name, value) > 0
        case "init_model_path":
            raise ValueError(f"--init_model_path={value} means {SPECIAL[name]}")
        case _ if name in LIVE:
            flags.overrides.append(f"{LIVE[name]}={_number(name, value)}")
        case _ if name in WITHOUT_EFFECT:
            flags.notices.append(f"--{name} has no effect: {WITHOUT_EFFECT[name]}")
        case _ if "." in name:  # a key of the job
            flags.overrides.append(f"{name}={value}")
        case _:
            known = [*LIVE, *SPECIAL, *WITHOUT_EFFECT]
            raise ValueError(
                f"--{name}: no such flag; {suggestion(name, known, kind='flags')} (keys of the job are set by --set "
                "KEY=VALUE)"
            )


def _number(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit():
        raise ValueError(f"--{name}={value}: expected a whole number")
    return int(value)
