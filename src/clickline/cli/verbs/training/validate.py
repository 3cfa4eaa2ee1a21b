"""`clickline validate`: is this job right? If not, everything that is wrong with it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from clickline.cli.shared.output import AsJson, JobFile, Overrides, print_json, say, say_note
from clickline.cli.shared.paddlerec_options import BackendFile, PaddleOverrides


def validate(
    job: JobFile,
    overrides: Overrides = None,
    without_files: Annotated[
        bool,
        typer.Option(
            "--without-files",
            help="Check the job alone: do not look for data, secrets, or a reader or model of your own.",
        ),
    ] = False,
    backend: BackendFile = None,
    paddle_overrides: PaddleOverrides = None,
    as_json: AsJson = False,
) -> None:
    """Check a job and list every mistake and contradiction in it, with its line, and every key without effect.

    The file may also be a config.yaml of PaddleRec: what of it could not be carried into a job is listed, too.

    Nothing is trained. Data files are looked for and headers read; a reader or model of your own is imported, as
    training would. Exit code 3 means that the job is wrong.

    Example: clickline validate job.yaml --set train.epochs=3
    """
    from clickline.compat.paddlerec.job_files import read_job_file
    from clickline.config.run_location import described, location_of
    from clickline.config.validation.contradictions import missing_for_training
    from clickline.errors import DataError, JobError, ModelError
    from clickline.launch.hosts.plans.job_plan import counts_of_hosts
    from clickline.train.preflight import EVERYTHING, Lookup, check_draft
    from clickline.train.run_files.run_directory import left_by_run

    look_for: tuple[Lookup, ...] = () if without_files else EVERYTHING
    given = overrides or []
    read = read_job_file(job, overrides=given, backend=backend, paddle_overrides=paddle_overrides or ())
    on_hosts = bool(read.draft.loaded.job.cluster.hosts)
    if on_hosts and read.translated is None:  # what is checked is the job that will run there
        read = read_job_file(job, overrides=[*given, *counts_of_hosts(read.draft.loaded.job)])
    if on_hosts or (read.translated is not None and read.translated.on_nodes):
        look_for = tuple(kind for kind in look_for if kind != "data")
    try:
        checked = check_draft(read.draft, look_for=look_for, training=False)
    except (DataError, ModelError) as error:
        raise JobError(str(error), errors=error.errors) from None
    location = location_of(checked.job)
    missing = [problem.message for problem in missing_for_training(checked.job)]
    if as_json:
        notices = [asdict(notice) for notice in checked.notices]
        found = {"valid": True, "path": job, "run": location.shown}
        if location.url is not None:
            found["local_copy"] = str(location.directory)
        told = {"notices": [asdict(notice) for notice in read.notices]} if read.translated else {}
        print_json({**found, "missing_for_training": missing, "without_effect": notices} | told)
        return
    say(f"{job} is valid", style="green")
    for notice in read.notices:
        say_note(str(notice))
    say(described(location))
    if on_hosts:
        say_note("data is looked for on the hosts, by `train --on`")
    for lack in missing:
        say_note(f"cannot be trained yet: {lack}")
    for notice in checked.notices:
        if notice.override or not left_by_run(job):  # which names every key there is
            say_note(str(notice))
