"""The launchers by name, and what can be done with a job from its record, whichever of them started it.

A launcher is a folder with two modules of the same shape as `launch/ssh`: `NAME_launcher` has a `Launcher` made by
`open_launcher`, `NAME_jobs` the functions of `JobActions`. They are imported when they are wanted, since some of them
need packages that not everybody has.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from clickline.config import Job
from clickline.errors import JobError, PeerError
from clickline.launch.hosts.host_messages import NodeSteps
from clickline.launch.hosts.plans.job_plan import counts_of_hosts
from clickline.launch.job_records import JobRecord
from clickline.progress import LogOnly, Watcher

LAUNCHERS = ("local", "ssh", "mpi", "ray", "kubernetes")


@dataclass(frozen=True, kw_only=True)
class SshOptions:
    """What the launcher over ssh can be told beside that."""

    job_workspace: str = ""
    """Directory that every host has already, to run in: nothing of the workspace is sent."""
    wheel: Path | None = None
    """Clickline itself, to be installed on each host for this job alone."""
    pass_directories: bool = False
    """Whether each epoch's parameters are written on the first host as PaddlePaddle v1 has them: pass-00000, …"""


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """What a launcher is told beside the job."""

    workspace: Path
    """Directory with what the job needs beside its data; it is sent to hosts that do not share it."""
    archive: bytes = b""
    """mpi: the same as an archive, for ranks that were not started in it."""
    manifests: str = ""
    """kubernetes: the objects to make, as YAML that may have been edited; those of the job if empty."""
    resume: bool | str = False
    """Whether to go on from the newest checkpoint, or from which: a directory of the first host, or a URL."""
    fresh: bool = False
    warm_start: str = ""
    """The same for weights to begin with."""
    watcher: Watcher
    ssh: SshOptions = SshOptions()
    job: str = ""
    """Identifier of the job, as `new_job_name` makes it; made by the launcher if it is empty."""
    steps: NodeSteps | None = None
    """What is done on each node before and after."""
    on_start: Callable[[], None] = lambda: None
    """Called when the runners of all hosts are reached, and the job's files are there."""

    @property
    def beginning(self) -> list[str]:
        """How the run begins, as arguments of the process that leads it: the coordinator, or rank 0."""
        resume = ["--resume-from", self.resume] if isinstance(self.resume, str) else ["--resume"] * self.resume
        warm_start = ["--warm-start", self.warm_start] if self.warm_start else []
        return [*resume, *["--fresh"] * self.fresh, *warm_start]


@dataclass(frozen=True, kw_only=True)
class LaunchedResult:
    """The result of a run on several hosts; the paths are those of the host that it names."""

    job: str
    host: str
    directory: str
    checkpoint: str
    steps: int
    rows: int
    seconds: float
    valid: Mapping[str, float]
    test: Mapping[str, float]
    account: Mapping[str, object]
    """What happened on the way, as the coordinator has counted it: faults, repeated rows, …"""

    @classmethod
    def read(cls, content: bytes, *, host: str, job: str) -> LaunchedResult:
        """From the result.json that the coordinator has written. Raises PeerError."""
        own = {field.name for field in fields(cls)} - {"job", "host", "account"}
        try:
            values = json.loads(content)
            account = {name: value for name, value in values.items() if name not in own}
            return cls(job=job, host=host, account=account, **{name: values[name] for name in own})
        except (ValueError, KeyError, AttributeError) as error:
            raise PeerError(f"{host}: the result of {job} cannot be read: {error!r}") from None

    def to_dict(self) -> dict[str, object]:
        values = asdict(self)
        return {**values.pop("account"), **values}


class Launcher(Protocol):
    """Trains one job on its hosts."""

    def run(self) -> LaunchedResult | None:
        """The result; None in a process that is a part of the run and not the one to tell of it. Raises PeerError.

        Nothing is left running in any case.
        """


class JobActions(Protocol):
    """What can be done with a job of a launcher from its record alone."""

    def stop_job(self, record: JobRecord) -> Mapping[str, str]:
        """Stop what its launcher has left running; by host, what came of it."""

    def read_status(self, record: JobRecord) -> bytes:
        """The run's status.json. Raises PeerError."""

    def read_log(self, record: JobRecord, process: str) -> bytes:
        """The log of one process, such as trainer.0. Raises PeerError."""


def check_launcher(name: str) -> None:
    """Raise JobError unless there is such a launcher."""
    if name not in LAUNCHERS:
        raise JobError(f"--on {name}: no such launcher; known: {', '.join(LAUNCHERS)}")


def job_actions(record: JobRecord) -> JobActions:
    """The actions for a job."""
    check_launcher(record.launcher)
    return cast(JobActions, importlib.import_module(f"clickline.launch.{record.launcher}.{record.launcher}_jobs"))


def count_overrides(job: Job, *, on: str) -> list[str]:
    """How many servers and trainers a job will have, as overrides of it: as many as its hosts, or ranks, say."""
    if on == "mpi":
        return list(import_launcher(on).count_overrides(job))
    return counts_of_hosts(job)


def follow_first_rank() -> bool:
    """Do the part of an MPI rank that is not the first one, up to its end; False in rank 0, which has the job.

    Only rank 0 reads a job and tells of it. Raises PeerError.
    """
    return bool(import_launcher("mpi").follow())


def leading(on: str) -> AbstractContextManager[object]:
    """Within, a failure of MPI's rank 0 is told to the ranks that wait for it; nothing for other launchers."""
    return cast(AbstractContextManager[object], import_launcher(on).leading()) if on == "mpi" else nullcontext()


def import_launcher(name: str) -> ModuleType:
    return importlib.import_module(f"clickline.launch.{name}.{name}_launcher")


def launch_job(
    job: Job,
    *,
    on: str,
    workspace: Path | None = None,
    resume: bool | str = False,
    fresh: bool = False,
    warm_start: str = "",
    watcher: Watcher | None = None,
    ssh: SshOptions | None = None,
) -> LaunchedResult | None:
    """Train a job on hosts, as `clickline train --on` does: ssh, mpi, ray or kubernetes; here, there is `train_job`.

    `resume` and `warm_start` may name a checkpoint: a directory on the host that has the run's, or a URL.
    The result is None in all MPI ranks but the first.
    """
    options = LaunchOptions(
        workspace=workspace or Path.cwd(),
        resume=resume,
        fresh=fresh,
        warm_start=warm_start,
        watcher=watcher or LogOnly(),
        ssh=ssh or SshOptions(),
    )
    return launch(job, on=on, options=options)


def launch(job: Job, *, on: str, options: LaunchOptions) -> LaunchedResult | None:
    """The same with all options."""
    check_launcher(on)
    if on == "local":
        raise JobError("launch_job starts a job on other hosts; for this machine call train_job")
    if on != "ssh" and options.ssh != SshOptions():
        raise JobError(f"--on {on} has no use for --job-workspace, --install and --pass-directories: leave them out")
    launcher: Launcher = import_launcher(on).open_launcher(job, options)
    return launcher.run()
