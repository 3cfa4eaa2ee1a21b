"""`clickline validate`: is this job right? If not, everything that is wrong with it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from clickline.cli.shared.output import AsJson, JobFile, Overrides, print_json, say, say_note


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
    as_json: AsJson = False,
) -> None:
    """Check a job and list every mistake and contradiction in it, with its line, and every key without effect.

    Nothing is trained. Data files are looked for and headers read; a reader or model of your own is imported, as
    training would. Exit code 3 means that the job is wrong.

    Example: clickline validate job.yaml --set train.epochs=3
    """
    from clickline.config.loading.reader import read_draft
    from clickline.config.validation.contradictions import missing_for_training
    from clickline.errors import DataError, JobError, ModelError
    from clickline.train.preflight import EVERYTHING, check_draft
    from clickline.train.run_files.run_directory import left_by_run

    look_for = () if without_files else EVERYTHING
    try:
        checked = check_draft(read_draft(job, overrides=overrides or ()), look_for=look_for, training=False)
    except (DataError, ModelError) as error:
        raise JobError(str(error), errors=error.errors) from None
    missing = [problem.message for problem in missing_for_training(checked.job)]
    if as_json:
        notices = [asdict(notice) for notice in checked.notices]
        print_json({"valid": True, "path": job, "missing_for_training": missing, "without_effect": notices})
        return
    say(f"{job} is valid", style="green")
    for lack in missing:
        say_note(f"cannot be trained yet: {lack}")
    for notice in checked.notices:
        if notice.override or not left_by_run(job):  # which names every key there is
            say_note(str(notice))
