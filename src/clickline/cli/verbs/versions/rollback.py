"""`clickline rollback`: make an earlier version the one to serve."""

from __future__ import annotations

from typing import Annotated

import typer

from clickline.cli.shared.output import AsJson, print_json, say
from clickline.cli.shared.storage_options import StoragePairs, options_of


def rollback(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A directory or a URL.", show_default=False)],
    to: Annotated[int | None, typer.Option(min=1, help="The version to serve; else the one before.")] = None,
    storage: StoragePairs = None,
    as_json: AsJson = False,
) -> None:
    """Serve an earlier version again, until the next one is published.

    A line is added to the store's donefile; nothing is copied or removed.

    Example: clickline rollback versions/demo
    """
    from clickline.versions.maintenance import rollback as go_back
    from clickline.versions.store import open_store

    now, before = go_back(open_store(store, options=options_of(storage), must_exist=True), to)
    if as_json:
        print_json({"store": store, "serving": now, "before": before})
    else:
        say(f"version {now} is the one to serve; it was {before}")
