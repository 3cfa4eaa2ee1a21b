"""`clickline train`: from a job file to a trained model."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickline.cli.shared.host_options import HostPython, InstalledWheel, JobWorkspace
from clickline.cli.shared.output import AsJson, JobFile, Overrides, errors, print_json, say, say_note
from clickline.cli.verbs.training.train_on_hosts import HostOptions, train_on_hosts

if TYPE_CHECKING:
    from clickline.compat.paddle_environment.communicator_flags import Flags
    from clickline.config.loading.reader import Draft
    from clickline.progress import Watcher
    from clickline.train.run_files.run_result import Result
    from clickline.versions.manifest import Manifest


def train(
    job: JobFile,
    overrides: Overrides = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint of the run.")] = False,
    resume_from: Annotated[
        str | None, typer.Option(metavar="CHECKPOINT", help="Go on from this checkpoint, a directory or URL.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw away the run's checkpoints and start over.")] = False,
    warm_start: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Start with the weights of a run (directory, URL, job file) or checkpoint."),
    ] = None,
    publish: Annotated[
        str | None, typer.Option(metavar="STORE", help="Publish what was trained there, as `clickline publish` does.")
    ] = None,
    on: Annotated[
        str, typer.Option(metavar="LAUNCHER", help="Who starts the processes: local, ssh, mpi, ray or kubernetes.")
    ] = "local",
    workspace: Annotated[
        Path | None,
        typer.Option(
            help="--on ssh, ray, kubernetes: directory whose files hosts get; the job file's own if not given."
        ),
    ] = None,
    job_workspace: JobWorkspace = "",
    hosts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="--on ssh: hosts in place of cluster.hosts: a YAML list, a hostfile of MPI, or a v1 conf.py.",
        ),
    ] = None,
    python: HostPython = "",
    install: InstalledWheel = None,
    pass_directories: Annotated[
        bool,
        typer.Option(
            "--pass-directories", help="--on ssh: write each epoch's parameters as PaddlePaddle v1 does: pass-00000, …"
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="--on kubernetes: print the objects that would be made, and make none.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model and test it.

    Example: clickline train job.yaml --set train.epochs=2

    On several hosts: clickline train job.yaml --on ssh --hosts hostfile

    By MPI ranks: mpirun -np 4 --host node1:2,node2:2 clickline train job.yaml --on mpi

    In pods: clickline train job.yaml --on kubernetes --set cluster.kubernetes.namespace=training

    Another day: clickline train job.yaml --set name=tuesday --set data.train=tuesday.tsv --warm-start runs/monday
    """
    from clickline.errors import JobError
    from clickline.launch.environment import torch_environment
    from clickline.launch.launchers import check_launcher, follow_first_rank

    check_launcher(on)
    if on == "mpi" and follow_first_rank():
        return
    flags = _communicator_flags()
    options = HostOptions(
        hosts=hosts,
        python=python,
        workspace=workspace or Path(job).parent,
        job_workspace=job_workspace,
        install=install,
        pass_directories=pass_directories,
        dry_run=dry_run,
    )
    if on != "local":
        if publish is not None:
            raise JobError(
                "--publish needs the run's directory here: `clickline publish` on the first host has it there"
            )
        train_on_hosts(
            lambda weak, strong: _read(job, [*flags.overrides, *weak, *(overrides or []), *strong]),
            on,
            options,
            resume=resume_from or resume,
            fresh=fresh,
            warm_start=warm_start or "",
            as_json=as_json,
        )
        return
    if options != HostOptions(workspace=options.workspace) or workspace is not None:
        raise JobError(
            "--hosts, --python, --workspace, --job-workspace, --install and --pass-directories need --on ssh, "
            "--dry-run needs --on kubernetes"
        )
    draft = _read(job, [*flags.overrides, *(overrides or [])])
    if draft.loaded.job.resolved_strategy == "collective":
        os.environ.update(torch_environment(os.environ))
    # After the environment, which PyTorch may read when imported.
    from clickline.config.run_location import run_directory_of
    from clickline.launch.local.local_jobs import recorded
    from clickline.launch.local.training_run import train_job
    from clickline.processes.child import launched
    from clickline.processes.logs import set_up
    from clickline.progress import LogOnly, watcher_for
    from clickline.train.preflight import check_draft
    from clickline.train.run_files.own_code import use_own_code
    from clickline.train.run_files.run_directory import left_by_run
    from clickline.train.run_storage.run_copy import code_directory

    rank_of_ours = launched() and "RANK" in os.environ
    if rank_of_ours:
        set_up("trainer", int(os.environ["RANK"]))
    if resume or resume_from is not None:
        use_own_code(code_directory(draft.loaded.job, of_url=not launched()))
    checked = check_draft(draft) if not launched() else None  # else the launcher has checked it
    if checked is not None and os.environ.get("RANK", "0") == "0":
        for notice in checked.notices:
            if notice.override or not left_by_run(job):  # which names every key there is
                say_note(flags.name_in(notice))
    watcher = LogOnly() if as_json or rank_of_ours else watcher_for(errors())
    run = draft.loaded.job
    tells = not launched() and os.environ.get("RANK", "0") == "0"
    with recorded(run, run_directory_of(run)) if tells else nullcontext():
        result = train_job(
            run,
            resume=resume_from or resume,
            fresh=fresh,
            warm_start=warm_start,
            watcher=watcher,
            checked=True,
        )
    version = None
    if publish is not None and os.environ.get("RANK", "0") == "0":  # one of several ranks does it for all
        version = _publish(result.checkpoint, publish, watcher)
    if as_json:
        print_json(result.to_dict() | ({} if version is None else {"version": version.version, "kind": version.kind}))
        return
    _show(result)
    if version is not None:
        rows = ", ".join(f"{table.rows:,} of {table.total:,} {name} rows" for name, table in version.tables.items())
        say(f"version {version.version} ({version.kind}) in {publish}: {rows}")


def _show(result: Result) -> None:
    from clickline.train.evaluation.metric_lines import figures_line

    say(f"{result.rows:,} rows in {result.seconds:.1f} s, {result.steps:,} steps")
    if result.test:
        say(f"test: {figures_line(result.test)}")
    say(f"checkpoint {result.shown_checkpoint}")


def _publish(checkpoint: Path, store: str, watcher: Watcher) -> Manifest:
    from clickline.publish.publisher import Settings
    from clickline.publish.publisher import publish as make
    from clickline.versions.store import open_store

    return make(checkpoint, open_store(store), Settings(), watcher=watcher)


def _read(file: str, overrides: list[str]) -> Draft:
    """The job. One that a run has left beside its checkpoints stands for that run, wherever one is now."""
    from clickline.compat.paddlerec.reading.file_kinds import refuse_config
    from clickline.config.loading.reader import read_draft
    from clickline.config.run_location import location_of
    from clickline.processes.child import launched
    from clickline.train.run_files.run_directory import left_by_run

    if not launched():
        refuse_config(file)
    draft, path = read_draft(file, overrides=overrides), Path(file).absolute()
    job = draft.loaded.job
    location = location_of(job)
    if launched() or not left_by_run(file) or location.url is not None:
        return draft
    if path.parent.name != job.name or location.directory.resolve() == path.parent.resolve():
        return draft
    # The run was moved, or the working directory is another: the recorded `output` would lead to a new run elsewhere.
    return read_draft(file, overrides=[f"output={json.dumps(str(path.parent.parent))}", *overrides])


def _communicator_flags() -> Flags:
    """Flags of PaddlePaddle's communicator in the environment; dead ones are reported, by one process of a job only."""
    from clickline.compat.paddle_environment.communicator_flags import Flags, paddle_flags
    from clickline.processes.child import launched

    if launched():  # the job that our launcher hands on has them in it, and --set on top of them
        return Flags([], {})
    flags = paddle_flags()
    if (said := flags.report()) and os.environ.get("RANK", "0") == "0":
        errors().print(said, markup=False, soft_wrap=True)
    return flags
