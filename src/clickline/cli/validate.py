"""`clickline validate`: is this job right? If not, everything that is wrong with it."""

from __future__ import annotations

from clickline.cli.output import AsJson, JobFile, Overrides, print_json, say, say_note


def validate(job: JobFile, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Check a job and list every mistake in it, with its line.

    Nothing is run, and no data is read. Exit code 3 means that the job is wrong.

    Example: clickline validate job.yaml --set train.epochs=3
    """
    from clickline.config.reading import missing_for_training, read_job
    from clickline.errors import JobError, ModelError
    from clickline.models.registry import model_class

    loaded = read_job(job, overrides=overrides or ())
    if ":" not in loaded.job.model.name:  # one of the user's own would be run by looking at it
        try:
            model_class(loaded.job.model.name)
        except ModelError as error:
            raise JobError(str(error)) from None
    missing = missing_for_training(loaded.job)
    if as_json:
        print_json({"valid": True, "path": job, "missing_for_training": missing})
        return
    say(f"{job} is valid", style="green")
    for lack in missing:
        say_note(f"cannot be trained yet: {lack}")
