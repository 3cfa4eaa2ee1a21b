"""`clickline status`: how a run's processes are doing, from the file that the run rewrites each second.

Of a suite that `clickline up` serves with, it is the suite's components that are shown.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from clickline.cli.pages.member_table import Members, shown
from clickline.cli.pages.suite_page import phase_of, show_suite, suite_of
from clickline.cli.shared import live_page
from clickline.cli.shared.deployed_option import Deployed
from clickline.cli.shared.output import AsJson, print_json, results, say
from clickline.errors import ClicklineError
from clickline.train.monitoring.run_health import ENDED, age_of, complaints_of


def status(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN|JOB|STATE]",
            help="A run's directory, URL or job file, a job of `clickline jobs`, or a suite's state directory; what is "
            "in runs if none.",
        ),
    ] = None,
    deployed: Deployed = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again each second, until it finishes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how the processes of a run, or of a suite, are doing. Exit code 1 if something is not well.

    Not well are: a process that is slow or dead, a run that failed, data that was set aside, and a status that is older
    than ten seconds although the run has not finished. Of a suite: a component that is dead, does not answer or serves
    another version than the rest, and a suite that was killed.

    Example: clickline status runs/demo --watch
    """
    if deployed is not None:
        from clickline.cli.pages.deployed_page import show_deployed

        show_deployed(deployed, watch=watch and not as_json, as_json=as_json)
        return
    if suite_of(run) is not None:
        show_suite(Path(run or "runs"), watch=watch and not as_json, as_json=as_json)
        return
    preparing = phase_of(run)
    if preparing and not as_json:
        say(f"clickline up is {preparing}")
    read = _reader(run)
    if watch and not as_json:
        seen = live_page.watch(
            read,
            page=lambda one: _page(one, age_of(one)),
            over=lambda one: one.get("phase") in ENDED,
        )
    else:
        seen = read()
        age = age_of(seen)
        complaints = list(complaints_of(seen))
        if as_json:
            print_json({**seen, "age": age, "well": not complaints, "complaints": complaints})
        else:
            results().print(_page(seen, age))
    if list(complaints_of(seen)):
        raise typer.Exit(1)


def _reader(run: str | None) -> Callable[[], dict[str, Any]]:
    """Reads the status of a run, which may be that of a job on other hosts."""
    from clickline.config.run_location import is_elsewhere
    from clickline.launch.job_records import is_job_name, read_record
    from clickline.launch.launchers import job_actions
    from clickline.train.run_files.run_directory import find_run

    if run is not None and is_job_name(run) and not Path(run).exists():
        record = read_record(run)
        actions = job_actions(record)
        return lambda: _parse(actions.read_status(record), where=f"the status of {record.job}")
    directory = find_run(run, only=("status.json",))
    if is_elsewhere(run):
        return lambda: _read(find_run(run, only=("status.json",)))
    return lambda: _read(directory)


def _read(directory: Path) -> dict[str, Any]:
    file = directory / "status.json"
    try:
        return _parse(file.read_bytes(), where=str(file))
    except FileNotFoundError:
        raise ClicklineError(f"{directory} has no status.json: it is not the directory of a run") from None
    except OSError as error:
        raise ClicklineError(f"{file} cannot be read: {error}") from None


def _parse(content: bytes, *, where: str) -> dict[str, Any]:
    try:
        status = json.loads(content)
    except ValueError as error:
        raise ClicklineError(f"{where} cannot be read: {error}") from None
    if not isinstance(status, dict):
        raise ClicklineError(f"{where} is not a status")
    return status


def _page(status: dict[str, Any], age: float) -> RenderableType:
    members = status.get("members", [])
    parts: list[RenderableType] = [Text(line) for line in _summary(status, age)]
    if members:
        parts.append(Members(members))
    parts += [Text(line) for line in _tables(members)]
    parts += [Text(f"metrics of {m['name']}: {m['metrics']}", overflow="fold") for m in members if m.get("metrics")]
    parts += [Text(str(fault), style="yellow") for fault in status.get("faults", ())[-5:]]
    parts += [Text(complaint, style="red") for complaint in complaints_of(status)]
    return Group(*parts)


def _summary(status: dict[str, Any], age: float) -> Iterator[str]:
    yield f"{status.get('job', '?')}: {status.get('phase', '?')}, {status.get('strategy', '?')}, {age:.0f} s ago"
    figures = [f"{name} {shown(status[name])}" for name in ("step", "rows") if status.get(name) is not None]
    if status.get("epochs"):
        figures.insert(0, f"epoch {max(status['epoch'], 1)} of {status['epochs']}")
    figures += [f"{shown(status['rows_per_second'])} rows/s"] if status.get("rows_per_second") is not None else []
    figures += [f"{name} {status[name]:.5f}" for name in ("loss", "auc", "rmse") if status.get(name) is not None]
    figures += [
        f"test {name} {status['test'][name]:.5f}"
        for name in ("auc", "logloss", "rmse", "mae")
        if name in status.get("test", ())
    ]
    yield ", ".join(figures)
    if pieces := status.get("pieces"):
        counts = ", ".join(f"{pieces[name]} {name}" for name in ("done", "active", "left") if name in pieces)
        yield f"pieces of data: {counts}, {len(pieces.get('set_aside', ()))} set aside"
    if nodes := status.get("nodes"):
        yield "rows by node: " + ", ".join(f"{node['node']}: {shown(node['rows'])}" for node in nodes)
    mishaps = ", ".join(
        f"{shown(status.get(name) or 0)} {name.replace('_', ' ')}"
        for name in ("restarts", "repeated_rows", "lost_pushes")
    )
    yield f"{mishaps}, generation {status.get('generation', 1)}"
    if checkpoint := status.get("checkpoint"):
        age_of_it = "" if checkpoint["time"] is None else f"{shown(max(0.0, time.time() - checkpoint['time']))} s old, "
        yield (
            f"checkpoint of step {shown(checkpoint['step'])}, {age_of_it}took {shown(checkpoint['seconds'])} s, "
            f"paused {shown(checkpoint['pause_seconds'])} s, {checkpoint['cuts']} so far"
        )


def _tables(members: list[dict[str, Any]]) -> Iterator[str]:
    """Rows of each table, in all and by server; below the processes, since there may be many tables."""
    for name in dict.fromkeys(name for member in members for name in member.get("tables", ())):
        parts = {m["name"]: m["tables"][name] for m in members if name in m.get("tables", ())}
        split = ", ".join(f"{server} {rows:,}" for server, rows in parts.items())
        yield f"table {name}: {sum(parts.values()):,} rows ({split})"
