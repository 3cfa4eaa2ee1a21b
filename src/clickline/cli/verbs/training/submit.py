"""`clickline submit`: PaddleRec's files, or a job, to a cluster, by way of a folder that can be edited."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clickline.cli.shared.host_options import HostPython
from clickline.cli.shared.output import AsJson, Overrides
from clickline.cli.shared.paddlerec_options import BackendFile, PaddleOverrides
from clickline.cli.verbs.training.submit_folder import SubmitRun, submit_directory, submit_files

Count = Annotated[int, typer.Option(min=0, hidden=True)]
Text = Annotated[str, typer.Option(hidden=True)]


def submit(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="A folder that was made before, or for PaddleCloud's client."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--model", "-m", metavar="CONFIG", help="PaddleRec's config.yaml, or a job.")
    ] = None,
    backend: BackendFile = None,
    on: Annotated[
        str, typer.Option(metavar="BACKEND", help="ssh, mpi, ray, local or kubernetes, in place of backend.yaml's.")
    ] = "",
    hosts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Hosts for ssh (as of `train --hosts`), or mpirun's hostfile.")
    ] = None,
    nodes: Annotated[int, typer.Option(min=0, help="How many nodes, in place of backend.yaml's.")] = 0,
    files: Annotated[str, typer.Option(metavar="GLOBS", help="Files that go along, in place of backend.yaml's.")] = "",
    job_name: Annotated[str, typer.Option(metavar="NAME", help="The job's name, in place of backend.yaml's.")] = "",
    start_cmd: Annotated[str, typer.Option(metavar="COMMAND", help="In place of backend.yaml's start_cmd.")] = "",
    mpirun: Annotated[
        str, typer.Option(metavar="COMMAND", help="mpi: the command that starts ranks, with its options.")
    ] = "",
    image: Annotated[str, typer.Option(help="kubernetes: the image of its containers.")] = "",
    python: HostPython = "",
    credentials: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with fs_ugi that only you can read (chmod 600).")
    ] = None,
    paddle_overrides: PaddleOverrides = None,
    overrides: Overrides = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint of the run.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Make and check everything, and start nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the job, and show its log.")] = False,
    as_json: AsJson = False,
    group_name: Text = "",
    model_directory: Text = "",
    trainers: Count = 0,
    servers: Count = 0,
    gpu_cards: Count = 0,
    trainer_cores: Count = 0,
    server_cores: Count = 0,
) -> None:
    """Submit PaddleRec's config.yaml, or a job, to a cluster.

    Everything is checked first. Then a folder NAME_YYYYmmddHHMM is made, with job.sh, config.ini and hooks. All of them
    can be edited: `sh job.sh` there submits again. The job goes on by itself; `clickline jobs`, `status`, `logs` and
    `stop` know it. Credentials come from CLICKLINE_FS_UGI, or from a file, and are in none that is made.

    Example: clickline submit -m config.yaml -b backend.yaml --hosts hostfile

    A job of Clickline: clickline submit -m job.yaml --on ssh --hosts hostfile --files './*.py'

    A folder for PaddleCloud's client: clickline submit FOLDER --on ssh --hosts hostfile
    """
    from clickline.compat.paddlerec.submission.submit_options import SubmitOptions
    from clickline.errors import JobError

    options = SubmitOptions(
        on={"k8s": "kubernetes"}.get(on, on),
        job_name=job_name,
        group_name=group_name,
        start_cmd=start_cmd,
        nodes=nodes,
        trainers=trainers,
        servers=servers,
        gpu_cards=gpu_cards,
        trainer_cores=trainer_cores,
        server_cores=server_cores,
        hosts="" if hosts is None else str(hosts),
        python=python,
        mpirun=mpirun,
        image=image,
        model_directory=model_directory,
        paddle_overrides=tuple(paddle_overrides or ()),
        overrides=tuple(overrides or ()),
    )
    run = SubmitRun(credentials=credentials, resume=resume, dry_run=dry_run, wait=wait, as_json=as_json)
    if (directory is None) == (config is None):
        raise JobError("expected either -m CONFIG or a FOLDER: clickline submit -m config.yaml -b backend.yaml")
    if config is not None:
        submit_files(config, None if backend is None else Path(backend), options, files, run)
        return
    assert directory is not None  # noqa: S101  (one of the two is given)
    submit_directory(directory, options, run)
