"""`clickline example`: public data, as downloaded, to a table of figures, by one command."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickline.cli.shared.output import AsJson, Overrides, errors, print_json, results

if TYPE_CHECKING:
    from clickline.examples.movielens_example import ModelScore

app = typer.Typer(help="Prepare, train and evaluate on a public dataset that you downloaded.", no_args_is_help=True)


@app.command()
def movielens(
    source: Annotated[str, typer.Argument(help="ml-1m.zip, or the directory it was unpacked to.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIRECTORY", help="For rows, jobs and runs.", show_default=False)
    ],
    hosts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Train on these hosts over ssh; a file as of train --on ssh --hosts."),
    ] = None,
    python: Annotated[str, typer.Option(metavar="PATH", help="Python on hosts that the file gives none.")] = "",
    overrides: Overrides = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what an earlier run has written.")] = False,
    as_json: AsJson = False,
) -> None:
    """MovieLens 1M: predict ratings (RMSE, MAE) and likes (AUC), beside two baselines.

    The rows are those of `clickline data import movielens`. The baselines are the mean of all ratings and a matrix
    factorization; the jobs are job.yaml and rating.yaml below --out, which `clickline train` takes as well.

    Example: clickline example movielens ml-1m.zip --out movielens --hosts hosts.yaml
    """
    from clickline.examples.movielens_example import ExampleHosts, run_movielens
    from clickline.processes.child import stopped_by_signals
    from clickline.progress import LogOnly, watcher_for

    with stopped_by_signals():
        scores = run_movielens(
            source,
            out,
            hosts=None if hosts is None else ExampleHosts(file=hosts, python=python),
            overrides=overrides or (),
            force=force,
            watcher=LogOnly() if as_json else watcher_for(errors()),
        )
    if as_json:
        print_json([asdict(score) for score in scores])
        return
    _print_table(scores)


def _print_table(scores: list[ModelScore]) -> None:
    from rich.table import Column, Table

    table = Table(Column("model", no_wrap=True), "RMSE", "MAE", "AUC of four stars or more")
    for score in scores:
        figures = (score.rmse, score.mae, score.auc)
        table.add_row(score.model, *("" if value is None else f"{value:.4f}" for value in figures))
    results().print(table)
