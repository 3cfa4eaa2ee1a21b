"""What a submission says beside its files: the options of job.sh, also by the names that PaddleCloud's client has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Self

from clickline.compat.paddlerec.reading.backend_file import Backend
from clickline.errors import JobError

LAUNCHERS = ("ssh", "mpi", "ray", "local", "kubernetes")
MPIRUN = "mpirun --map-by ppr:1:node --bind-to none"
"""One rank on each node; Open MPI would bind it to one core."""
_DEFAULT_START = "python -m paddlerec.run -m ./{}"
_PADDLECLOUD = {
    "mpi-nodes": "nodes",
    "k8s-trainers": "trainers",
    "k8s-ps-num": "servers",
    "k8s-gpu-cards": "gpu_cards",
    "k8s-cpu-cores": "trainer_cores",
    "k8s-ps-cores": "server_cores",
}
"""Options of PaddleCloud's client that have other names here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """All of it. What is empty, or 0, is not said."""

    on: str = ""
    """One of LAUNCHERS."""
    job_name: str = ""
    group_name: str = ""
    start_cmd: str = ""
    job_conf: str = "config.ini"
    nodes: int = 0
    """Each with a server and a trainer."""
    trainers: int = 0
    servers: int = 0
    gpu_cards: int = 0
    trainer_cores: int = 0
    server_cores: int = 0
    hosts: str = ""
    """File of hosts: ssh, mpi."""
    python: str = ""
    """Of hosts whose file names none, or of ranks."""
    mpirun: str = ""
    image: str = ""
    """kubernetes: of the containers."""
    model_directory: str = ""
    """Name of the directory that config.yaml was taken from: PaddleRec's models are known by it."""
    paddle_overrides: tuple[str, ...] = ()
    """-o of PaddleRec's config.yaml."""
    overrides: tuple[str, ...] = ()
    """--set of the job."""
    files: tuple[str, ...] = field(default=(), compare=False)
    """Globs of files, of a folder that was written by hand."""

    def or_else(self, weaker: Self) -> Self:
        """These, and those of another where they say nothing."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        default = {each.name: each.default for each in fields(self)}
        return replace(weaker, **{name: value for name, value in given.items() if value and value != default[name]})

    @classmethod
    def of_words(cls, words: Mapping[str, list[str]], *, source: str) -> Self:
        """From options of a command line, by their names without dashes; those of the platform itself are left out."""
        known = {each.name: each.type for each in fields(cls)}
        values: dict[str, object] = {}
        for name, given in words.items():
            key = {"set": "overrides", "o": "paddle_overrides"}.get(name) or _PADDLECLOUD.get(name, name)
            key = key.replace("-", "_")
            if key not in known:
                continue
            kind, text = known[key], given[-1] if given else ""
            if kind == "int":
                if not text.isdecimal():
                    raise JobError(f"{source}: --{name} is {text!r}, a whole number was expected")
                values[key] = int(text)
            else:
                values[key] = text if kind == "str" else tuple(given)
        on = values.get("on") or _launcher_of(words)
        return cls(**{**values, "on": on})  # type: ignore[arg-type]


def _launcher_of(words: Mapping[str, list[str]]) -> str:
    if any(name.startswith("mpi-") for name in words):
        return "mpi"
    return "kubernetes" if any(name.startswith("k8s-") for name in words) else ""


def options_of_backend(backend: Backend) -> SubmitOptions:
    """What a backend.yaml says."""
    submit = backend.submit
    on_nodes = backend.cluster_type == "mpi"
    return SubmitOptions(
        on=launcher_of_backend(backend),
        job_name=submit.job_name,
        group_name=submit.group,
        start_cmd=submit.start_cmd,
        nodes=submit.nodes if on_nodes else 0,
        trainers=0 if on_nodes else submit.k8s_trainers,
        servers=0 if on_nodes else submit.k8s_ps_num,
        gpu_cards=0 if on_nodes else submit.k8s_gpu_card,
        trainer_cores=submit.k8s_cpu_cores or 0,
        server_cores=submit.k8s_ps_cores or 0,
    )


def launcher_of_backend(backend: Backend) -> str:
    """Which of ours a backend stands for. PaddleCloud itself is closed: it is whichever its `cluster_type` says."""
    name = backend.backend
    if name == "paddlecloud":
        name = backend.cluster_type
    return "kubernetes" if name == "k8s" else name


def default_start(config: Path) -> str:
    """The command for a file that is submitted without a backend.yaml."""
    return _DEFAULT_START.format(config.name)
