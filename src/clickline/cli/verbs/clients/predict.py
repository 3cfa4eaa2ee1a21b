"""`clickline predict`: ask a predictor about one row, a file of rows, or what comes in by a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from clickline.cli.shared.client_options import ModelName, State, Url, client_of, predictor_url, refusals_as_errors
from clickline.cli.shared.output import AsJson, print_json, results, say_note

if TYPE_CHECKING:
    from clickline.client.payloads import Prediction

_MOST_IN_A_TABLE = 100
"""Rows beyond this many are printed as lines with tabs between: as they come, and for other programs to read."""


def predict(
    row: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ROW…]", help="COLUMN=VALUE… of one row, or rows as JSON objects.", show_default=False),
    ] = None,
    url: Url = None,
    state: State = Path("runs"),
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            metavar="FILE|-",
            help="Rows as JSON lines, or a log as it is, columns included that the model does not read; - is standard "
            "input.",
            show_default=False,
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option("--format", help="auto, json, criteo, csv (first line names columns), slots or elasticctr."),
    ] = "auto",
    delimiter: Annotated[str, typer.Option(help="Between the columns of csv.")] = ",",
    model: ModelName = None,
    version: Annotated[int | None, typer.Option(min=1, help="Which one; else the one in service.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Same key, same variant, where traffic is split.", show_default=False)
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows of one request.")] = 256,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds for one request, its retries included.")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Ask a predictor for the probability of rows. Values are raw, as in the log; the token is CLICKLINE_TOKEN's.

    Exit codes: 4 if the rows are wrong, 7 if there is no answer, 8 if there is no such model or version.

    Example: clickline predict C1=68fd1e64 C2=80e26c9b I1=3
    """
    from clickline.client.request_rows import batches

    with client_of(predictor_url(url, state), timeout=timeout) as client, refusals_as_errors():
        rows = _rows(client, row or [], file, form, delimiter, model)
        # Lazy: rows from a pipe are sent batch by batch while more are still to come.
        answers = ((part, client.predict(part, model=model, version=version, key=key)) for part in batches(rows, batch))
        if as_json:
            print_json(asdict(_as_json(answers)))
        else:
            _show(answers)


def _rows(
    client: Any, given: list[str], file: str | None, form: str, delimiter: str, model: str | None
) -> Iterable[dict[str, Any]]:
    from clickline.cli.shared.client_options import model_metadata
    from clickline.client.made_up_rows import columns
    from clickline.client.request_rows import FORMATS, read_file, read_rows, row_of_pairs
    from clickline.errors import DataError

    if form not in FORMATS:
        raise typer.BadParameter(f"'{form}' is not a format; known are {', '.join(FORMATS)}", param_hint="--format")
    if given and file:
        raise typer.BadParameter("name rows or a file, not both", param_hint="ROW")
    if given:
        if given[0].lstrip().startswith("{"):
            return list(read_rows(given, source="the command line", form="json"))
        return [row_of_pairs(given)]
    if file is None and sys.stdin.isatty():
        raise typer.BadParameter("name a row, or --file, or send rows to standard input", param_hint="ROW")

    def known() -> list[str]:
        return columns(model_metadata(client, model))

    rows = read_file(
        file or "-", standard_input=sys.stdin, form=form, delimiter=delimiter, columns=known, on_dropped=say_note
    )
    # One row is read ahead, so that empty input is an error before any request is sent; the rest is streamed.
    first = next(rows, None)
    if first is None:
        raise DataError(f"there are no rows in {file or 'standard input'}")
    return chain([first], rows)


@dataclass
class AllPredictions:
    """The answers to all requests, as --json prints them."""

    model: str = ""
    versions: list[int] = field(default_factory=list)
    """More than one only if another came into service on the way: one request has one version."""
    missing: int = 0
    predictions: list[dict[str, object]] = field(default_factory=list)

    def add(self, answer: Prediction) -> None:
        self.model = answer.model
        self.missing += answer.missing
        if answer.version not in self.versions:
            self.versions.append(answer.version)
        extra = {"variant": answer.variant} if answer.variant else {}
        self.predictions += [{answer.output: p, "version": answer.version, **extra} for p in answer.probabilities]


def _as_json(answers: Iterable[tuple[list[Any], Prediction]]) -> AllPredictions:
    predictions = AllPredictions()
    for _, answer in answers:
        predictions.add(answer)
    return predictions


def _show(answers: Iterable[tuple[list[Any], Prediction]]) -> None:
    shown: list[tuple[str, ...]] = []
    lines = False
    number = 0
    for part, answer in answers:
        probabilities: list[Any] = list(answer.probabilities)
        for row, probability in zip(part, probabilities, strict=True):
            number += 1
            shown.append((str(number), _features(row), _text(probability), str(answer.version), answer.variant))
        if lines or number > _MOST_IN_A_TABLE:
            lines = True
            for cells in shown:
                typer.echo("\t".join((cells[0], cells[2], cells[3])))  # rich would make spaces of the tabs
            shown = []
    if not lines:
        variants = any(cells[4] for cells in shown)
        table = Table("row", "features", "prediction", "version", *(["variant"] if variants else []))
        for cells in shown:
            table.add_row(*(cells if variants else cells[:4]))
        results().print(table)


def _text(probability: float | dict[str, float]) -> str:
    if isinstance(probability, dict):
        return ", ".join(f"{label} {value:.6f}" for label, value in probability.items())
    return f"{probability:.6f}"


def _features(row: Mapping[str, object], *, most: int = 60) -> str:
    text = " ".join(f"{name}={value}" for name, value in row.items())
    return text if len(text) <= most else f"{text[: most - 1]}…"
