"""`clickline bench`: measure what runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from clickline.cli.shared.client_options import (
    ModelName,
    State,
    UrlArgument,
    client_of,
    model_metadata,
    predictor_url,
    refusals_as_errors,
)
from clickline.cli.shared.output import AsJson, errors, print_json, results, say

if TYPE_CHECKING:
    from clickline.net.predictor_documents import ModelMetadata

app = typer.Typer(help="Measure what runs: how fast, how many, how many fail.", no_args_is_help=True)
_MOST_ROWS = 10_000
"""Rows of a file that requests are drawn from."""


@app.callback()
def _bench() -> None:
    """Measure what runs: how fast, how many, how many fail."""


@app.command()
def serve(
    url: UrlArgument = None,
    state: State = Path("runs"),
    protocol: Annotated[
        str, typer.Option(help="json, v2 (Open Inference Protocol), binary (the same, binary tensors) or grpc.")
    ] = "json",
    connections: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="1 unless given; 32 with --rate.", show_default=False),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.001, help="Open loop: so many requests fall due each second, answered or not.", show_default=False
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Of one request.")] = 16,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE|-", help="Rows to draw from, as for predict; else made up."),
    ] = None,
    duration: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds; 10 unless --requests is given.", show_default=False)
    ] = None,
    requests: Annotated[int | None, typer.Option(min=1, help="So many, then stop.", show_default=False)] = None,
    model: ModelName = None,
    seed: Annotated[int, typer.Option(min=0, help="Of rows, and of when requests fall due.")] = 0,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds for one answer.")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Load a predictor: latency at 50, 80, 90, 99 and 99.9 per cent, requests per second, errors by reason, versions.

    Closed loop: each connection asks again when it is answered. Open loop (--rate): requests fall due by a Poisson
    process, and their time counts from then, so that waiting for a slow server is not left out. Exit code 1 if a
    request failed.

    Example: clickline bench serve http://127.0.0.1:8010 --connections 8 --duration 10
    """
    from clickline.client.http_requests import default_model, token_of
    from clickline.client.load.http_load import LoadPlan
    from clickline.client.load.load_test import PROTOCOLS, measure

    if protocol not in PROTOCOLS:
        raise typer.BadParameter(f"'{protocol}' is none; known are {', '.join(PROTOCOLS)}", param_hint="--protocol")
    load = LoadPlan(
        connections=connections or (1 if rate is None else 32),
        rate=rate,
        requests=requests,
        seconds=duration or (None if requests else 10.0),
        seed=seed,
        timeout=timeout,
    )
    with client_of(predictor_url(url, state), timeout=timeout) as client, refusals_as_errors():
        name = model or default_model(client.status())
        drawn = _rows(model_metadata(client, name), file, seed)
        with _progress(quiet=as_json) as tell:
            figures, tally = measure(
                client.address,
                drawn,
                load,
                protocol=protocol,
                per_request=rows,
                model=name,
                token=token_of(None),
                on_progress=tell,
            )
    if as_json:
        print_json(figures)
    else:
        _show(figures, tally.taken)
    if figures["failed"]:
        raise typer.Exit(1)


def _rows(metadata: ModelMetadata, file: str | None, seed: int) -> list[dict[str, Any]]:
    from clickline.client.made_up_rows import columns, sample_rows
    from clickline.client.request_rows import read_file
    from clickline.errors import DataError

    if file is None:
        return sample_rows(metadata, 1000, seed=seed)
    rows = read_file(file, standard_input=sys.stdin, columns=lambda: columns(metadata))
    if first := list(islice(rows, _MOST_ROWS)):
        return first
    raise DataError(f"there are no rows in {file}")


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[int, float], None] | None]:
    """A progress bar on a terminal."""
    console = errors()
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (BarColumn(bar_width=None), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda done, share: bar.update(task, completed=share, description=f"{done:,} requests")


def _show(figures: dict[str, Any], taken: list[float]) -> None:
    from clickline.client.load.percentiles import picture

    how = f"{figures['connections']} connections, {figures['rows']} rows each, {figures['protocol']}"
    loop = "closed loop" if figures["rate"] is None else f"open loop at {figures['rate']:g}/s"
    say(f"{figures['requests']:,} requests in {figures['seconds']:.2f} s, {loop}, {how}")
    table = Table("latency", "us")
    for name, value in figures["microseconds"].items():
        table.add_row(name if name in ("avg", "max") else f"{name} %", "" if value is None else f"{value:,.1f}")
    results().print(table)
    for line in picture(taken):
        say(line)
    say(f"{figures['qps']:,} requests/s, {figures['rows_per_second']:,} rows/s")
    say("versions: " + (", ".join(f"{v} ({count:,})" for v, count in figures["versions"].items()) or "none"))
    if figures["failed"]:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in figures["errors"].items())
        say(f"failed: {figures['failed']:,} ({reasons})", style="red")
