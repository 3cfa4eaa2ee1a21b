"""`clickline migrate`: PaddleRec's config.yaml as a job of our own, ElasticCTR's data.config as values of a suite."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from clickline.cli.shared.output import AsJson, Overrides, print_json, say, say_note
from clickline.cli.shared.paddlerec_options import BackendFile, PaddleOverrides


def migrate(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="PaddleRec's config.yaml, of either generation, or ElasticCTR's data.config.",
            show_default=False,
        ),
    ],
    backend: BackendFile = None,
    paddle_overrides: PaddleOverrides = None,
    overrides: Overrides = None,
    runner: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The runner of `mode` to make a job of; else the first that trains."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="JOB", help="The job's file, which must not be there; else it is printed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Turn PaddleRec's config.yaml, and backend.yaml if there is one, into a job, and list what it could not carry.

    Nothing is trained. The job is checked as `clickline validate` does, without looking for its data. ElasticCTR's
    data.config becomes values of `clickline deploy`.

    Example: clickline migrate config.yaml -b backend.yaml -o runner.epochs=2 --output job.yaml
    """
    from clickline.compat.elasticctr.data_config import is_data_config
    from clickline.compat.paddlerec.job_files import read_paddlerec_job
    from clickline.errors import JobError, ModelError
    from clickline.files.atomic import replace_file
    from clickline.train.preflight import check_draft

    if output is not None and output.exists():
        raise typer.BadParameter(f"{output} is there already; name another file, or remove it", param_hint="--output")
    if is_data_config(config):
        _migrate_data_config(config, output, as_json=as_json)
        return
    read = read_paddlerec_job(
        config, overrides=overrides or (), backend=backend, paddle_overrides=paddle_overrides or (), runner=runner
    )
    try:
        check_draft(read.draft, look_for=(), training=False)
    except ModelError as error:
        raise JobError(str(error), errors=error.errors) from None
    job = read.translated
    assert job is not None  # noqa: S101 - of a file of PaddleRec's there is always one
    text = job.text(source=config)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, text.encode())
    if as_json:
        print_json(
            {
                "path": None if output is None else str(output),
                "runner": job.runner,
                "other_runners": read.others,
                "job": job.values,
                "options": job.options,
                "notices": [asdict(notice) for notice in read.notices],
            }
        )
        return
    if output is None:
        say(text.rstrip("\n"))
    for notice in read.notices if output is not None else ():  # else they are on top of what was printed
        say_note(str(notice))
    for other in read.others:
        say_note(f"the runner {other} is a job of its own: clickline migrate {config} --runner {other}")
    if output is not None:
        say(f"{output} is made of {config}", style="green")
        say(f"train it by: clickline train {' '.join([str(output), *job.options])}")


def _migrate_data_config(config: str, output: Path | None, *, as_json: bool) -> None:
    """Print values of a suite, or write them."""
    import yaml

    from clickline.compat.elasticctr.data_config import read_data_config
    from clickline.config.loading.reader import checked_settings
    from clickline.deploy.values import Values
    from clickline.files.atomic import replace_file

    read = read_data_config(config)
    checked_settings(read.values, Values, source=config)
    text = f"# Made of {config}\n" + yaml.safe_dump(read.values, sort_keys=False)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, text.encode())
    if as_json:
        path = None if output is None else str(output)
        print_json({"path": path, "values": read.values, "notices": read.notices})
        return
    if output is None:
        say(text.rstrip("\n"))
    for notice in read.notices:
        say_note(notice)
    if output is not None:
        say(f"{output} is made of {config}", style="green")
        say(f"deploy it by: clickline deploy {output}")
