"""`clickline evaluate`: figures of a checkpoint on any data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from clickline.cli.output import AsJson, errors, print_json, results


def evaluate(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint's directory.", show_default=False)],
    data: Annotated[list[str], typer.Argument(help="Files, globs, directories or URLs.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint: AUC, logloss, calibration, precision, recall, GAUC.

    Example: clickline evaluate runs/demo/checkpoints/step-0000000196 'logs/today-*.tsv.gz'
    """
    from clickline.train.api import evaluate_checkpoint
    from clickline.train.watching import Silent, watcher_for

    watcher = Silent() if as_json else watcher_for(errors())
    figures = evaluate_checkpoint(checkpoint=checkpoint, paths=data, watcher=watcher)
    if as_json:
        print_json(figures)
        return
    table = Table("figure", "value")
    for name, value in figures.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else f"{value:.6f}")
    results().print(table)
