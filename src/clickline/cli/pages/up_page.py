"""The page that `clickline up` prints once it serves: predictions, AUC or RMSE, addresses, and commands to try."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table

from clickline.cli.shared.output import results, say

if TYPE_CHECKING:
    from clickline.launch.stack.stack_report import SamplePrediction, StackReport

_COLUMNS = 5
"""Features that are shown of each row: more do not fit on a line."""


def show(report: StackReport) -> None:
    """Print the page."""
    say(_trained(report))
    say(f"version {report.version} ({report.kind}) in {report.store}")
    say("")
    results().print(_table(report.samples, squared=report.loss == "squared"))
    say("")
    for line in _quality(report):
        say(line)
    say("")
    say(f"predictions  {report.http}  model {report.model}; {report.http}/docs says how to ask")
    say(f"versions     {report.files}")
    say(f"transfer     {report.transfer}/status")
    say(f"first prediction after {report.first_prediction_seconds:.1f} s")
    say("")
    say("Try, in another terminal:", style="bold")
    for line in suggestions(report):
        say(f"  {line}")
    say(
        f"Ctrl+C, or clickline down {_state(report)}".rstrip()
        + f", stops it; clickline up goes on from {report.state}."
    )


def suggestions(report: StackReport) -> Iterator[str]:
    """Commands to try. All but the last, which needs a new log, work as they stand."""
    features = next((sample.features for sample in report.samples if sample.features), {})
    few = dict(list(features.items())[:3])
    body = json.dumps({"instances": [few]}, ensure_ascii=False)
    yield f"curl -s {report.http}/predict -d {shlex.quote(body)}"
    state = f" --state {_state(report)}" if _state(report) else ""
    yield f"clickline predict {shlex.quote(json.dumps(few, ensure_ascii=False))}{state}"
    yield f"clickline status {_state(report)}".rstrip()
    yield f"clickline bench serve{state}"
    # As in the README: a new day on the weights of the day before is a small delta, a further epoch a large one.
    run = shlex.quote(report.run)
    yield (
        f"clickline train {run}/job.json --set name=today --set data.train=TODAYS_LOG --warm-start {run} "
        f"--publish {shlex.quote(report.store)}   # served a moment later"
    )


def _trained(report: StackReport) -> str:
    how = {"trained": "trained on", "resumed": "trained, resumed, on", "kept": "trained before on"}[report.training]
    return f"{how} {report.rows:,} rows in {report.seconds:.1f} s: {report.run}"


def _quality(report: StackReport) -> Iterator[str]:
    served, squared = report.served, report.loss == "squared"
    name = "RMSE" if squared else "AUC"
    reached = None if served is None else served.rmse if squared else served.auc
    trained = report.trained_rmse if squared else report.trained_auc
    if served is not None and reached is not None:
        asked = f"{served.rows:,} rows, {served.requests:,} requests, {served.seconds:.1f} s"
        yield f"test {name} through the server  {reached:.4f}  ({asked})"
    if trained is not None:
        yield f"test {name} by the trainer      {trained:.4f}"
    if report.best_auc is not None:
        yield f"best that this data allows   {report.best_auc:.4f}"


def _table(samples: list[SamplePrediction], *, squared: bool) -> Table:
    names = list(dict.fromkeys(name for sample in samples for name in sample.features))[:_COLUMNS]
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, no_wrap=True)
    table.add_column("…", style="dim")
    for title in (*(("label", "value") if squared else ("clicked", "probability")), "version"):
        table.add_column(title, justify="right", no_wrap=True)
    for sample in samples:
        cells = [_cell(sample.features.get(name)) for name in names]
        table.add_row(*cells, "…", f"{sample.label:g}", f"{sample.probability:.4f}", str(sample.version))
    return table


def _cell(value: object) -> str:
    return "" if value is None else f"{value!s:.20}"


def _state(report: StackReport) -> str:
    """The state directory as an argument; empty if it is the one that verbs look in by default."""
    return "" if report.state == "runs" else shlex.quote(report.state)
