"""`clickline train --on LAUNCHER`: a run on hosts of a cluster, started from here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from clickline.cli.shared.output import errors, print_json, say, say_note

if TYPE_CHECKING:
    from clickline.config import Job
    from clickline.config.loading.reader import Draft

ReadJob = Callable[[list[str], list[str]], "Draft"]
"""Reads the job under overrides: the first ones are weaker than those of --set, the second ones stronger."""


@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """Options of a verb that are about hosts."""

    hosts: Path | None = None
    """File of hosts, in place of cluster.hosts."""
    python: str = ""
    """For the hosts of that file."""
    workspace: Path
    job_workspace: str = ""
    install: Path | None = None
    pass_directories: bool = False
    dry_run: bool = False


def train_on_hosts(
    read: ReadJob,
    launcher: str,
    options: HostOptions,
    *,
    resume: bool | str,
    fresh: bool,
    warm_start: str = "",
    as_json: bool,
) -> None:
    """Train on the job's hosts; print what came of it."""
    from clickline.launch.launchers import SshOptions, launch_job, leading
    from clickline.processes.child import stopped_by_signals
    from clickline.progress import LogOnly, watcher_for
    from clickline.train.evaluation.metric_lines import figures_line
    from clickline.train.preflight import check_draft, check_options

    ssh = SshOptions(
        job_workspace=options.job_workspace, wheel=options.install, pass_directories=options.pass_directories
    )
    # Data is looked for by those who read it, on their hosts, and so is the user's own code that is there already.
    with stopped_by_signals(), leading(launcher):
        check_options(resume=bool(resume), fresh=fresh, warm_start=bool(warm_start))
        draft = _with_hosts(read, launcher, options)
        checked = check_draft(draft, look_for=() if options.job_workspace else ("model",))
        for notice in checked.notices:
            say_note(str(notice))
        if options.dry_run:
            _print_manifests(checked.job, options.workspace, as_json=as_json)
            return
        watcher = LogOnly() if as_json else watcher_for(errors())
        result = launch_job(
            checked.job,
            on=launcher,
            workspace=options.workspace,
            resume=resume,
            fresh=fresh,
            warm_start=warm_start,
            watcher=watcher,
            ssh=ssh,
        )
    if result is None:  # a rank of MPI that is not the one to tell
        return
    if as_json:
        print_json(result.to_dict())
        return
    say(f"{result.rows:,} rows in {result.seconds:.1f} s, {result.steps:,} steps")
    if result.test:
        say(f"test: {figures_line(result.test)}")
    if url := result.account.get("url"):
        say(f"checkpoint {url}/checkpoints/{Path(result.checkpoint).name}")
    else:
        say(f"checkpoint {result.checkpoint} on {result.host}")
    if options.pass_directories:
        say(f"passes in {result.directory} there")


def _print_manifests(job: Job, workspace: Path, *, as_json: bool) -> None:
    """What a launch on Kubernetes would make; no cluster need be there."""
    import yaml

    from clickline.launch.kubernetes.kubernetes_launcher import planned_manifests

    planned = planned_manifests(job, workspace=workspace)
    for notice in planned.notices:
        say_note(notice)
    if as_json:
        print_json({"apiVersion": "v1", "kind": "List", "items": planned.documents()})
    else:
        typer.echo(yaml.safe_dump_all(planned.documents(), sort_keys=False, allow_unicode=True, width=110), nl=False)


def _with_hosts(read: ReadJob, launcher: str, options: HostOptions) -> Draft:
    """The job with the hosts of a file, if one is given, and with as many processes as its hosts have."""
    from clickline.errors import JobError
    from clickline.launch.hosts.host_list import read_host_list
    from clickline.launch.hosts.plans.job_plan import check_hosts, counts_of_hosts
    from clickline.launch.launchers import count_overrides

    if options.dry_run and launcher != "kubernetes":
        raise JobError("--dry-run is for --on kubernetes; `clickline validate` checks a job for any other launcher")
    if launcher != "ssh":
        if options.hosts is not None:
            raise JobError(f"--hosts is for --on ssh: --on {launcher} has hosts of its own")
        return read([], count_overrides(read([], []).loaded.job, on=launcher))
    of_file: list[str] = []
    if options.hosts is not None:
        listed = read_host_list(options.hosts)
        of_file = listed.overrides(python=options.python)
        for notice in listed.notices:
            say_note(notice)
    elif options.python:
        raise JobError("--python is for the hosts of a --hosts file; cluster.hosts has a key `python` for each")
    job = read(of_file, []).loaded.job
    check_hosts(job)
    # What is checked is the job that will run.
    return read(of_file, counts_of_hosts(job))
