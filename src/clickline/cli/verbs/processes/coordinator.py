"""`clickline coordinator`: membership, pieces of data, barriers and checkpoints."""

from __future__ import annotations

from typing import Annotated

import typer

from clickline.cli.shared.output import JobFile, Overrides
from clickline.cli.shared.roles import job_reader, run_role


def coordinator(
    job: JobFile,
    overrides: Overrides = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint of the run.")] = False,
    resume_from: Annotated[
        str | None, typer.Option(metavar="CHECKPOINT", help="Go on from this checkpoint, a directory or URL.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw away the run's checkpoints and start over.")] = False,
    warm_start: Annotated[
        str | None, typer.Option(metavar="CHECKPOINT", help="Start with this checkpoint's weights, a directory or URL.")
    ] = None,
) -> None:
    """Run the coordinator of a job on its own; without one, pserver 0 is the coordinator too.

    A run that was not finished is taken up where its coordinator stood, without any option. With --resume it goes on
    from a checkpoint instead, by as many processes as there are now.

    docs/reference/environment.md has the variables. `clickline train` starts all processes of a job on one machine.

    Example: clickline coordinator job.yaml
    """
    read = job_reader(job, overrides)
    run_role("coordinator", read, resume=resume_from or resume, fresh=fresh, warm_start=warm_start)
