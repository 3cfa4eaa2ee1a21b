"""`clickline checkpoint`: look into checkpoints, check them, compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from clickline.cli.pages.nested_values import nested_table
from clickline.cli.shared.output import AsJson, print_json, results, say

if TYPE_CHECKING:
    from clickline.train.checkpoints.checkpoint_manifest import Checkpoint

app = typer.Typer(help="Look into checkpoints, check them, compare them.", no_args_is_help=True)
Place = Annotated[str, typer.Argument(help="A checkpoint's directory or URL.", show_default=False)]


@app.command()
def show(path: Place, as_json: AsJson = False) -> None:
    """What a checkpoint holds: step, rows, tables, bytes per row.

    Example: clickline checkpoint show runs/demo/checkpoints/step-0000000196
    """
    from clickline.train.checkpoints.checkpoint_inspection import summary

    figures = summary(_read(path))
    if as_json:
        print_json(figures)
        return
    results().print(nested_table(figures))


@app.command()
def verify(path: Place, as_json: AsJson = False) -> None:
    """Check every file's size, SHA-256 and inner checksums; exit 6 if one is damaged.

    Example: clickline checkpoint verify runs/demo/checkpoints/step-0000000196
    """
    from clickline.train.checkpoints.checkpoint_files import verify as check
    from clickline.train.checkpoints.checkpoint_inspection import summary

    checkpoint = _read(path)
    check(checkpoint)
    figures = summary(checkpoint)
    if as_json:
        print_json({"path": str(path), "ok": True, "step": figures["step"]})
    else:
        say(f"{path}: {len(checkpoint.manifest['files'])} files, all as the manifest says")


@app.command()
def diff(one: Place, other: Place, as_json: AsJson = False) -> None:
    """How two checkpoints differ: parameters, rows added, removed, changed. Exit 1 if they do.

    Example: clickline checkpoint diff runs/demo/checkpoints/step-0000000100 runs/demo/checkpoints/step-0000000196
    """
    from clickline.train.checkpoints.checkpoint_inspection import difference

    differences = difference(_read(one), _read(other))
    if as_json:
        print_json(differences)
    else:
        results().print(nested_table(differences, titles=("what", "difference")))
    if not differences["same"]:
        raise typer.Exit(1)


def _read(where: str) -> Checkpoint:
    """The checkpoint itself, or a copy of one at a URL."""
    from clickline.config.run_location import is_elsewhere, local_path
    from clickline.train.checkpoints.checkpoint_files import read
    from clickline.train.run_files.run_directory import find_checkpoint

    return find_checkpoint(where) if is_elsewhere(where) else read(local_path(where))
