"""Options of verbs that read PaddleRec's files: backend.yaml, and -o as PaddleRec has it."""

from __future__ import annotations

from typing import Annotated

import typer

BackendFile = Annotated[
    str | None,
    typer.Option("--backend", "-b", metavar="FILE", help="PaddleRec's backend.yaml that belongs to its config.yaml."),
]
PaddleOverrides = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        metavar="KEY=VALUE",
        help="Change one value of PaddleRec's config.yaml, such as runner.epochs=3. May be repeated.",
    ),
]
