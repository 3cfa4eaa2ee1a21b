"""Options of the process that leads a run: how the run begins."""

from __future__ import annotations

from typing import Annotated

import typer

Resume = Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint of the run.")]
ResumeFrom = Annotated[
    str | None, typer.Option(metavar="CHECKPOINT", help="Go on from this checkpoint, a directory or URL.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Throw away the run's checkpoints and start over.")]
WarmStart = Annotated[
    str | None, typer.Option(metavar="CHECKPOINT", help="Start with this checkpoint's weights, a directory or URL.")
]
