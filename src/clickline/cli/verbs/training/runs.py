"""`clickline runs` and `clickline compare`: what runs there are, what they came to, and how two of them differ."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from clickline.cli.shared.output import AsJson, print_json, results, say, say_note

if TYPE_CHECKING:
    from clickline.train.run_files.run_summary import RunSummary

_FACTS = ("state", "strategy", "model", "epoch", "epochs", "steps", "rows", "seconds")
_RIGHT = ("epochs", "rows", "test auc", "test logloss", "test rmse", "test mae")
_MOST = 60
"""Characters of a job's value in a table; --json has all of it."""
RunOrJob = Annotated[
    str, typer.Argument(help="A run's directory or URL, its job file, or a checkpoint.", show_default=False)
]


def runs(
    directory: Annotated[
        str,
        typer.Argument(
            metavar="[DIR]", help="What holds the runs, a directory or URL; or a run, its job file, or a checkpoint."
        ),
    ] = "runs",
    as_json: AsJson = False,
) -> None:
    """List runs with their state and figures, the one written to last first.

    A state is that of `clickline status`; lost: the run has not ended, but nobody writes its status any more.

    Example: clickline runs runs
    """
    from clickline.errors import ClicklineError
    from clickline.train.run_files.run_summary import summaries_in

    found = summaries_in(directory)
    if not found:
        raise ClicklineError(f"there is no run in {directory!r}; name the directory that holds the runs")
    if as_json:
        print_json([{name: value for name, value in one.to_dict().items() if name != "job"} for one in found])
        return
    figures = _figure_names(found)
    titles = ("run", "state", "strategy", "model", "epochs", "rows", *(f"test {name}" for name in figures), "written")
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="right" if title in _RIGHT else "left", overflow="fold")
    for one in found:
        table.add_row(*map(Text, _cells(one, figures)))
    results().print(table)
    for one in found:
        if one.problem:
            say_note(one.problem)


def compare(one: RunOrJob, other: RunOrJob, as_json: AsJson = False) -> None:
    """Show how two runs differ: the keys of their jobs with both values, and their figures side by side.

    A job file stands for its run; if it has not been run, only the jobs are compared.

    Example: clickline compare runs/monday runs/tuesday
    """
    from clickline.train.run_files.run_summary import job_differences, summary_of

    pair = summary_of(one), summary_of(other)
    differing = list(job_differences(pair[0].job, pair[1].job))
    if as_json:
        print_json(
            {
                "runs": [{name: value for name, value in run.to_dict().items() if name != "job"} for run in pair],
                "job": [{"key": key, "values": [mine, yours]} for key, mine, yours in differing],
                "figures": {
                    kind: {name: {"values": list(values), "difference": _difference(*values)} for name, *values in rows}
                    for kind in ("test", "valid")
                    if (rows := _figures(pair, kind))
                },
            }
        )
        return
    table = _two_columns("figure", pair, "difference")
    for name in _FACTS:
        values = [getattr(run, name) for run in pair]
        if any(value is not None for value in values):
            table.add_row(name, *(_text(value) for value in values), "")
    for kind in ("test", "valid"):
        for name, mine, yours in _figures(pair, kind):
            difference = _difference(mine, yours)
            shown = "" if difference is None else f"{difference:+.5f}"
            table.add_row(f"{kind} {name}", *(_figure(value) for value in (mine, yours)), shown)
    results().print(table)
    say("")
    if not differing:
        say("the jobs are the same")
        return
    jobs = _two_columns("key of the job", pair)
    for key, *both in differing:
        jobs.add_row(Text(key), *(Text(_shortened(value)) for value in both))
    results().print(jobs)


def _figure_names(found: Sequence[RunSummary]) -> tuple[str, ...]:
    """The figures that a list of runs shows: of clicks, of numbers, or both where there are runs of both kinds."""
    squared = [(run.job.get("train") or {}).get("loss") == "squared" for run in found]
    return (() if all(squared) else ("auc", "logloss")) + (("rmse", "mae") if any(squared) else ())


def _cells(run: RunSummary, names: Sequence[str]) -> list[str]:
    epochs = "" if run.epochs is None else f"{run.epoch}/{run.epochs}" if run.epoch is not None else str(run.epochs)
    written = "" if run.time is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(run.time))
    figures = [_figure(run.test.get(name)) for name in names]
    texts = [run.path, run.state, run.strategy or "", run.model or "", epochs]
    return [*texts, _text(run.rows), *figures, written]


def _two_columns(title: str, pair: tuple[RunSummary, RunSummary], *more: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in (title, *(run.path for run in pair), *more):
        table.add_column(Text(name), overflow="fold")
    return table


def _figures(pair: Sequence[RunSummary], kind: str) -> list[tuple[str, Any, Any]]:
    mine, yours = (getattr(run, kind) for run in pair)
    return [(name, mine.get(name), yours.get(name)) for name in dict.fromkeys([*mine, *yours])]


def _difference(mine: Any, yours: Any) -> float | None:
    numbers = isinstance(mine, int | float) and isinstance(yours, int | float)
    return yours - mine if numbers else None


def _figure(value: Any) -> str:
    return f"{value:.5f}" if isinstance(value, float) else _text(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}" if isinstance(value, float) else str(value)


def _shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
