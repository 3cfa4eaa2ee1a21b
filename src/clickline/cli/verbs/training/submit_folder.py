"""Submission of a folder, as `clickline submit` and `clickline run -b` do it, told in PaddleRec's words."""

from __future__ import annotations

import getpass
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from clickline.cli.shared.output import errors, print_json, say, say_note

if TYPE_CHECKING:
    from clickline.compat.paddlerec.submission.submission import Submission
    from clickline.compat.paddlerec.submission.submission_folder import MadeFolder, SubmissionInputs
    from clickline.compat.paddlerec.submission.submit_options import SubmitOptions
    from clickline.errors import JobProblem


@dataclass(frozen=True, kw_only=True)
class SubmitRun:
    """How a submission is gone about."""

    credentials: Path | None = None
    resume: bool = False
    dry_run: bool = False
    wait: bool = False
    as_json: bool = False


def submit_files(config: Path, backend: Path | None, options: SubmitOptions, files: str, run: SubmitRun) -> None:
    """Make a folder of PaddleRec's files, or of a job, and submit it."""
    from clickline.compat.paddlerec.submission.submission_folder import inputs_of_config

    _submit_inputs(inputs_of_config(config, backend=backend, options=options, files=files), run)


def submit_directory(directory: Path, options: SubmitOptions, run: SubmitRun) -> None:
    """Submit a folder that was generated, as it is now; make one first of a folder written for PaddleCloud's client."""
    from clickline.compat.paddlerec.submission.job_script import NAME, read_job_script
    from clickline.compat.paddlerec.submission.paddlecloud_files import inputs_of_directory
    from clickline.compat.paddlerec.submission.submission import read_submission
    from clickline.launch.background.submission_order import host_overrides

    script = read_job_script(directory / NAME)
    if options.hosts and Path(options.hosts).is_file():  # seen from here, and not from the folder
        options = replace(options, hosts=str(Path(options.hosts).absolute()))
    options = options.or_else(script.options)
    if not script.generated:
        _submit_inputs(inputs_of_directory(directory, options), run)
        return
    submission = read_submission(
        directory,
        options,
        host_overrides=host_overrides(options, beside=directory),
        credentials_file=None if run.credentials is None else run.credentials.absolute(),
    )
    _tell(submission.notices)
    _launch(submission, directory.absolute(), run)


def _submit_inputs(inputs: SubmissionInputs, run: SubmitRun) -> None:
    from clickline.compat.paddlerec.submission.submission_folder import make_folder
    from clickline.launch.background.submission_order import host_overrides

    made = make_folder(
        inputs,
        Path.cwd(),
        host_overrides=host_overrides(inputs.options),
        credentials_file=run.credentials,
    )
    _tell(made.notices)
    if not run.as_json:
        _say_generated(made)
    _launch(made.submission, made.path, run)


def _say_generated(made: MadeFolder) -> None:
    from clickline.config.secrets.secret_checks import is_secret

    submission = made.submission
    device = "gpu" if submission.job.strategy == "collective" else "cpu"
    kind = {"kubernetes": "k8s"}.get(submission.options.on, submission.options.on)
    width = max(len(name) for name in submission.environment)
    say(f"{'Cluster Envs':<{width}} | Value")
    for name, value in submission.environment.items():
        say(f"{name:<{width}} | {'***' if is_secret(name.lower()) else value}")
    say(f"The task submission folder is generated at {made.path}")
    say("before_submit")
    for line in (f"{device} before_hook.sh", f"{kind}_config.ini", f"{kind}_job.sh", "end_hook.sh"):
        say(f"gen {line}")


def _launch(submission: Submission, folder: Path, run: SubmitRun) -> None:
    from clickline.launch.background.background_launch import BackgroundLaunch
    from clickline.launch.background.submission_order import order_of
    from clickline.launch.job_records import new_job_name

    progress = _Progress(quiet=run.as_json)
    progress.say("Start checking your job configuration, please be patient.")
    progress.say("Congratulations! Job configuration check passed!")
    if run.dry_run:
        progress.say(f"nothing was started; `sh {folder / 'job.sh'}` does that")
        progress.say("end submit")
        if run.as_json:
            print_json({"folder": str(folder), "jobId": None})
        return
    job = new_job_name()
    order = order_of(submission, folder, job=job, resume=run.resume)
    launch = BackgroundLaunch(order, hidden=submission.hidden)
    told = errors()

    def show(line: str) -> None:
        told.print(line, markup=False, highlight=False, soft_wrap=True)

    launch.await_start(show)
    progress.say("Congratulations! The new job is ready for training.")
    identity = {"groupName": submission.options.group_name, "jobId": job, "userId": getpass.getuser()}
    if not run.as_json:
        typer.echo(json.dumps(identity, indent=4))
    progress.say("end submit")
    result = launch.await_end(show) if run.wait else None
    if run.as_json:
        print_json({**identity, "folder": str(folder)} | ({} if result is None else {"result": result}))


class _Progress:
    """Lines for people, in PaddleRec's words; none with --json."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def say(self, line: str) -> None:
        if not self._quiet:
            say(line)


def _tell(notices: list[JobProblem]) -> None:
    for notice in notices:
        say_note(str(notice))
