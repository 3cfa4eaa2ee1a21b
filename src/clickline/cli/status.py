"""`clickline status`: how a run's processes are doing, from the file that its coordinator rewrites each second."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from clickline.cli.output import AsJson, print_json, results
from clickline.cli.runs import find_run
from clickline.errors import ClicklineError

FINISHED = ("finished", "done")
STALE = 10.0
"""Seconds after which a status that is written each second says that nobody writes it."""
_STYLES = {"well": "green", "done": "green", "joining": "cyan", "slow": "yellow", "dead": "red"}


def status(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN|JOB]", help="A run's directory or job file; the newest run if none."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again each second, until it finishes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how the processes of a run are doing. Exit code 1 if something is not well.

    Not well are: a process that is slow or dead, a run that failed, data that was set aside, and a status that is older
    than ten seconds although the run has not finished.

    Example: clickline status runs/demo --watch
    """
    directory = find_run(run)
    if watch and not as_json:
        found = _watch(directory)
    else:
        found = _read(directory)
        age = _age(found)
        complaints = list(_complaints(found, age))
        if as_json:
            print_json({**found, "age": age, "well": not complaints, "complaints": complaints})
        else:
            results().print(_page(found, age))
    if list(_complaints(found, _age(found))):
        raise typer.Exit(1)


def _watch(directory: Path) -> dict[str, Any]:
    with Live(console=results(), auto_refresh=False) as live:
        while True:
            found = _read(directory)
            age = _age(found)
            live.update(_page(found, age), refresh=True)
            if found.get("phase") in (*FINISHED, "failed"):
                return found
            time.sleep(1)


def _read(directory: Path) -> dict[str, Any]:
    file = directory / "status.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ClicklineError(f"{directory} has no status.json: one process alone writes none, only a cluster") from None
    except (OSError, ValueError) as error:
        raise ClicklineError(f"{file} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ClicklineError(f"{file} holds no status")
    return found


def _age(found: dict[str, Any]) -> float:
    said = found.get("time", 0)
    moment = datetime.fromisoformat(said).timestamp() if isinstance(said, str) else float(said)
    return round(max(0.0, time.time() - moment), 1)


def _complaints(found: dict[str, Any], age: float) -> Iterator[str]:
    """Everything that is not well."""
    if found.get("phase") == "failed":
        yield "the run failed"
    elif found.get("phase") not in FINISHED:
        if age > STALE:
            yield f"nobody has written the status for {age:.0f} s: the coordinator is gone or hangs"
        for member in found.get("members", ()):
            if member.get("state") in ("slow", "dead"):
                yield f"{_name(member)} is {member['state']}, silent for {member.get('silent', 0):.0f} s"
    for piece in found.get("pieces", {}).get("set_aside", ()):
        yield f"set aside: {piece}"


def _page(found: dict[str, Any], age: float) -> RenderableType:
    parts: list[RenderableType] = [Text(line) for line in _summary(found, age)]
    if found.get("members"):
        parts.append(_members(found["members"]))
    parts += [Text(str(fault), style="yellow") for fault in found.get("faults", ())[-5:]]
    parts += [Text(complaint, style="red") for complaint in _complaints(found, age)]
    return Group(*parts)


def _summary(found: dict[str, Any], age: float) -> Iterator[str]:
    yield f"{found.get('job', '?')}: {found.get('phase', '?')}, {found.get('strategy', '?')}, {age:.0f} s ago"
    facts = [f"{name} {_shown(found[name])}" for name in ("epoch", "step", "rows") if found.get(name) is not None]
    facts += [f"{_shown(found['rows_per_second'])} rows/s"] if found.get("rows_per_second") is not None else []
    facts += [f"{name} {found[name]:.5f}" for name in ("loss", "auc") if found.get(name) is not None]
    yield ", ".join(facts)
    if pieces := found.get("pieces"):
        counts = ", ".join(f"{pieces[name]} {name}" for name in ("done", "active", "left") if name in pieces)
        yield f"pieces of data: {counts}, {len(pieces.get('set_aside', ()))} set aside"
    mishaps = ("restarts", "repeated_rows", "lost_pushes")
    yield ", ".join(f"{_shown(found.get(name) or 0)} {name.replace('_', ' ')}" for name in mishaps)
    if checkpoint := found.get("checkpoint"):
        yield (
            f"checkpoint of step {_shown(checkpoint.get('step'))}, {_shown(checkpoint.get('age'))} s old, took "
            f"{_shown(checkpoint.get('seconds'))} s, paused {_shown(checkpoint.get('pause_seconds'))} s"
        )


def _members(members: list[dict[str, Any]]) -> Table:
    table = Table("process", "state", box=None, pad_edge=False)
    for title in ("silent s", "rows/s", "queue", "staleness", "table rows", "MiB", "retries"):
        table.add_column(title, justify="right")
    metrics = any(member.get("metrics") for member in members)
    if metrics:
        table.add_column("metrics")
    for member in members:
        state = str(member.get("state", "?"))
        rows = [f"{name} {count:,}" for name, count in (member.get("tables") or {}).items()]
        figures = [_shown(member.get(key)) for key in ("silent", "rows_per_second", "queue", "staleness")]
        cells: list[RenderableType] = [_name(member), Text(state, style=_STYLES.get(state, "")), *figures]
        cells += [", ".join(rows), _shown(member.get("memory_mib")), _shown(member.get("retries"))]
        table.add_row(*cells, *([member.get("metrics") or ""] if metrics else []))
    return table


def _name(member: dict[str, Any]) -> str:
    return str(member.get("name") or f"{member.get('role', '?')}.{member.get('rank', '?')}")


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
