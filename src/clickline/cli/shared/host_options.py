"""Options of verbs that start a job on hosts over ssh."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JobWorkspace = Annotated[
    str,
    typer.Option(
        metavar="DIR", help="--on ssh: a directory that every host has already; the job runs in it, nothing is copied."
    ),
]
HostPython = Annotated[
    str, typer.Option(metavar="COMMAND", help="--on ssh: the Python on hosts of a file that gives them none.")
]
InstalledWheel = Annotated[
    Path | None,
    typer.Option(metavar="WHEEL", help="--on ssh: install this wheel of Clickline on each host, for this job alone."),
]
