"""`clickline build`: a version's row files, cut for the shards of a cube."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clickline.cli.shared.output import AsJson, print_json, say


def build(
    store: Annotated[
        str,
        typer.Argument(
            metavar="STORE", help="Where versions are: a directory or a URL; Cube's donefiles too.", show_default=False
        ),
    ],
    to: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Where builds are made.", show_default=False)],
    shards: Annotated[int, typer.Option(min=1, max=4096, help="Shards of the cube.", show_default=False)],
    name: Annotated[str, typer.Option(help="Of the dictionary: files are NAME_part0.tar, …")] = "cube",
    version: Annotated[int | None, typer.Option(help="Which one; else the one to serve.")] = None,
    threads: Annotated[int, typer.Option(min=0, help="0: one for each core.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Build a version, and what it stands on, for a number of shards.

    Everything is checked first. If anything is wrong, the exit code is 8 and nothing is left that could be delivered.
    What has been built already is not built again.

    Example: clickline build versions/demo --to builds --shards 2
    """
    import shutil
    import tempfile

    import msgspec

    from clickline.compat.cube.http.meta_info import MetaInfoFiles
    from clickline.compat.cube.product_source import DonefileSource
    from clickline.cube.builder.builder import build as make
    from clickline.errors import VersionError

    source = DonefileSource(store, table=name)
    chain = source.chain(version)
    if not chain:
        raise VersionError(f"{store}: no version has been published there")
    builds = []
    scratch = Path(tempfile.mkdtemp(prefix="clickline-build-"))
    try:
        for link in chain:
            rows = source.rows(link, scratch=scratch)
            builds.append(make(rows, out=to, name=name, shards=shards, threads=threads, listener=MetaInfoFiles()))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if as_json:
        print_json([{"path": str(made.path), **msgspec.to_builtins(made.record)} for made in builds])
    for made in builds if not as_json else ():
        rows_in = sum(file.rows for file in made.record.files.values())
        say(f"{made.path}: {made.record.kind} {made.record.version}, {rows_in:,} rows in {shards} shards")
