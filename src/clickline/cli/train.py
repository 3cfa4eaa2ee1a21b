"""`clickline train`: from a job file to a trained model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from clickline.cli.output import AsJson, JobFile, Overrides, errors, print_json, say


def train(
    job: JobFile,
    overrides: Overrides = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint of the run.")] = False,
    resume_from: Annotated[Path | None, typer.Option(help="Go on from this checkpoint.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw away the run's checkpoints and start over.")] = False,
    warm_start: Annotated[Path | None, typer.Option(help="Start with this checkpoint's weights.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model and test it.

    Example: clickline train job.yaml --set train.epochs=2
    """
    from clickline.config.reading import read_job
    from clickline.launch.environment import torch_environment
    from clickline.train.watching import Silent, watcher_for

    loaded = read_job(job, overrides=[*_older_flags(), *(overrides or [])])
    if loaded.job.way == "collective":
        os.environ.update(torch_environment(os.environ))
    from clickline.launch.clusters import train_job  # after the environment, which PyTorch may read when imported

    result = train_job(
        loaded.job,
        resume=resume_from or resume,
        fresh=fresh,
        warm_start=warm_start,
        watcher=Silent() if as_json else watcher_for(errors()),
    )
    if as_json:
        print_json(result.to_dict())
        return
    say(f"{result.rows:,} rows in {result.seconds:.1f} s, {result.steps:,} steps")
    if "auc" in result.test:
        say(f"test AUC {result.test['auc']:.5f}, logloss {result.test['logloss']:.5f}")
    say(f"checkpoint {result.checkpoint}")


def _older_flags() -> list[str]:
    """What flags of the older communicator change; those that are dead are reported, by one process of a job only."""
    from clickline.launch.child import launched
    from clickline.launch.flags import older_flags

    if launched():  # the job that our launcher hands on has them in it, and --set on top of them
        return []
    flags = older_flags()
    if flags.dead and os.environ.get("RANK", "0") == "0":
        errors().print(flags.report(), markup=False, soft_wrap=True)
    return flags.overrides
