"""`clickline export`: a published version in the formats of ElasticCTR's Cube."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from clickline.cli.shared.output import AsJson, errors, print_json, say
from clickline.cli.shared.storage_options import StoragePairs, options_of

_VERSION_DIRECTORY = re.compile(r"(.+)/v(\d{10})/?")


def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="STORE",
            help="A directory or URL of versions, or the directory of one version in it.",
            show_default=False,
        ),
    ],
    number: Annotated[
        int | None,
        typer.Argument(metavar="[VERSION]", min=1, help="Its number; else the one to serve.", show_default=False),
    ] = None,
    *,
    to: Annotated[Path, typer.Option(metavar="DIR", help="Where to write: a directory for each table.")],
    format: Annotated[
        Literal["sequencefile", "text"],
        typer.Option("--format", help="SequenceFiles with donefiles, or text: KEY:NUMBERS, one row a line."),
    ] = "sequencefile",
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="How readers of the donefiles name DIR; its absolute path if not given.",
            show_default=False,
        ),
    ] = None,
    storage: StoragePairs = None,
    as_json: AsJson = False,
) -> None:
    """Write a published version in the formats of ElasticCTR's Cube, with everything it stands on.

    A base becomes a line in base.txt, each delta one in patch.txt; keys that a delta deletes have empty values. What
    DIR has already is not written again, so the next delta adds one directory and one line.

    Example: clickline export versions/demo 12 --to /data/ctr_cube --format sequencefile
    """
    from dataclasses import asdict

    from clickline.compat.cube.cube_export import export_version
    from clickline.errors import VersionError
    from clickline.progress import LogOnly, watcher_for
    from clickline.versions.donefile import serving
    from clickline.versions.store import open_store

    if match := _VERSION_DIRECTORY.fullmatch(source):
        if number is not None and number != int(match[2]):
            raise typer.BadParameter(f"{source!r} is version {int(match[2])}, not {number}", param_hint="VERSION")
        source, number = match[1], int(match[2])
    store = open_store(source, options=options_of(storage), must_exist=True)
    version = number or serving(store)
    if version is None:
        raise VersionError(f"{store.url}: no version has been published there")
    watcher = LogOnly() if as_json else watcher_for(errors())
    watcher.begin(f"exporting version {version}")
    try:
        products = export_version(
            store,
            version,
            to,
            format=format,
            prefix=prefix,
            progress=lambda share, table: watcher.advance(share=share, facts={"table": table}),
        )
    finally:
        watcher.end()
    if as_json:
        exported = [asdict(product) for product in products]
        print_json({"store": store.url, "version": version, "to": str(to), "format": format, "products": exported})
        return
    if not products:
        say(f"{to} has version {version} already")
    for product in products:
        deleted = f", {product.deleted:,} deleted" if product.deleted else ""
        say(f"{product.table}: {product.kind} {product.id}: {product.rows:,} rows{deleted} in {product.input}")
