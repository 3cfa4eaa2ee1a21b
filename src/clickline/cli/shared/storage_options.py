"""The option --storage, which verbs that open a store of versions share."""

from __future__ import annotations

from typing import Annotated

import typer

StoragePairs = Annotated[
    list[str] | None,
    typer.Option(
        "--storage", metavar="KEY=VALUE", help="An option of fsspec for the store; secrets as ${env:NAME}. Repeatable."
    ),
]


def options_of(pairs: list[str] | None) -> dict[str, str]:
    """KEY=VALUE pairs as options of fsspec. Secrets must be references: other users see a process's arguments."""
    options = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--storage")
        options[key] = value
    if not options:
        return options
    from pydantic_core import PydanticCustomError

    from clickline.config.secrets.secret_checks import check_concealed

    try:
        return check_concealed(options)
    except PydanticCustomError:
        raise typer.BadParameter(
            "everybody on this machine can read arguments; write a secret as ${env:NAME} and set NAME",
            param_hint="--storage",
        ) from None
