"""`clickline k8s`: a pod of plain YAML finds the others of its job and runs its part, as `paddle_k8s` did."""

from __future__ import annotations

from typing import Annotated

import typer

from clickline.cli.shared.output import Overrides
from clickline.cli.shared.roles import job_reader, run_role

app = typer.Typer(
    no_args_is_help=True, help="Start a pod of plain YAML: a ReplicaSet of servers and a Job of trainers."
)
JobFile = Annotated[
    str, typer.Argument(metavar="[JOB]", help="The job's YAML file; without it, ENTRY is run.", show_default=False)
]
Timeout = Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for the other pods.")]
_PATIENCE = 600.0


@app.command("start_pserver")
def start_pserver(job: JobFile = "", overrides: Overrides = None, timeout: Timeout = _PATIENCE) -> None:
    """Run a parameter server in a pod of plain YAML: finds the other pods of the job by their labels first.

    The variables PADDLE_JOB_NAME, PADDLE_PSERVERS_NUM or PSERVERS, PADDLE_TRAINERS_NUM or TRAINERS, PADDLE_PORT,
    POD_NAME and POD_IP say which job and how many. docs/kubernetes.md has a complete example.

    Example: clickline k8s start_pserver /job/job.yaml
    """
    _start("pserver", job, overrides, timeout)


@app.command("start_trainer")
def start_trainer(job: JobFile = "", overrides: Overrides = None, timeout: Timeout = _PATIENCE) -> None:
    """Run a trainer in a pod of plain YAML: finds the other pods of the job by their labels first.

    The variables are those of start_pserver.

    Example: clickline k8s start_trainer /job/job.yaml
    """
    _start("trainer", job, overrides, timeout)


@app.command("start_fluid")
def start_fluid(job: JobFile = "", overrides: Overrides = None, timeout: Timeout = _PATIENCE) -> None:
    """Run what TRAINING_ROLE says, PSERVER or TRAINER: by ENTRY, or by the job's file if one is named.

    The other variables are those of start_pserver.

    Example: clickline k8s start_fluid
    """
    _start(None, job, overrides, timeout)


def _start(role: str | None, job: str, overrides: list[str] | None, timeout: float) -> None:
    import os
    import sys
    from pathlib import Path

    from clickline.cli.shared.output import say_note
    from clickline.launch.kubernetes.cluster_access import find_cluster
    from clickline.launch.kubernetes.cluster_client import ClusterClient
    from clickline.launch.kubernetes.plain.entry_command import MESSAGE_FILE, package_environment, run_entry
    from clickline.launch.kubernetes.plain.peer_discovery import PeerDiscovery, check_servers
    from clickline.launch.kubernetes.plain.plain_settings import misspelt, read_settings
    from clickline.launch.kubernetes.plain.token_check import check_token
    from clickline.processes.child import stopped_by_signals

    with stopped_by_signals():
        settings = read_settings(os.environ, role=role, job_file=job)
        for notice in misspelt(os.environ):
            say_note(notice)
        check_servers(settings)
        if not settings.entry or "clickline" in settings.entry:
            check_token(os.environ)
        with ClusterClient(find_cluster()) as client:
            found = PeerDiscovery(client, settings, timeout=timeout, say=say_note).find()
        # Our own variables stay as the container has set them.
        os.environ.update({k: v for k, v in found.items() if not (k.startswith("CLICKLINE_") and os.environ.get(k))})
        say_note(f"this is {settings.role}.{found['CLICKLINE_RANK']} of {settings.job!r}")
        directory = None
        if settings.package and not Path(settings.package).is_dir():
            say_note(f"TRAINER_PACKAGE: {settings.package!r} is no directory of this image, and is left out")
        elif settings.package:
            os.environ.update(package_environment(settings.package, os.environ))
            sys.path.insert(0, settings.package)
            directory = settings.package if role is not None else None
        if settings.entry:
            code = run_entry(settings.entry, os.environ, directory=directory, message_file=MESSAGE_FILE)
            raise typer.Exit(code)
        if directory:
            os.chdir(directory)
    run_role(settings.role, job_reader(settings.job_file, overrides))
