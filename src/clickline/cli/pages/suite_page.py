"""A suite for people and programs: every component, what it serves, whether it is well."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clickline.cli.shared import live_page
from clickline.cli.shared.output import print_json, results

SERVING = ("starting", "serving")


def suite_of(where: str | None) -> Path | None:
    """The state directory that is meant, if a suite serves there, or was killed while it did.

    While `up` still trains there, the run is what there is to see.
    """
    from clickline.launch.suite_state import is_up, read_suite

    state = Path(where or "runs")
    found = read_suite(state) if state.is_dir() else None
    if found is None:
        return None
    return state if found.get("phase") in SERVING or not is_up(state) else None


def phase_of(where: str | None) -> str:
    """What `up` is at, before it serves; empty if it is not."""
    from clickline.launch.suite_state import is_up, read_suite

    state = Path(where or "runs")
    found = read_suite(state) if state.is_dir() else None
    if found is None or found.get("phase") in SERVING or not is_up(state):
        return ""
    return str(found.get("phase", ""))


def show_suite(state: Path, *, watch: bool, as_json: bool) -> None:
    """Print it, once or each second until it ends. Exit code 1 if something is not well."""
    from clickline.launch.suite_health import examine

    def look() -> dict[str, Any]:
        found = examine(state)
        return found or {"components": [], "complaints": [], "well": True, "phase": "stopped", "up": False}

    found = live_page.watch(look, page=_page, over=lambda one: not one["up"]) if watch else look()
    if as_json:
        print_json(found)
    elif not watch:
        results().print(_page(found))
    if not found["well"]:
        raise typer.Exit(1)


def _page(found: dict[str, Any]) -> RenderableType:
    if not found["components"]:
        return Text(f"suite: {found['phase']}" if found["well"] else "; ".join(found["complaints"]), style="yellow")
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found["started"]))
    serving = f"version {found['version']} in service" if found["version"] else "no version in service"
    rolling = f", {found['rolling']} on its way" if found["rolling"] else ""
    parts: list[RenderableType] = [
        Text(f"{found['model']} at {found['http'] or '…'}: {serving}{rolling}; process {found['pid']}, since {since}"),
        _table(found["components"]),
    ]
    return Group(*parts, *(Text(complaint, style="red") for complaint in found["complaints"]))


def _table(components: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("component", "process", "version", "restarts", "health", "address"):
        right = title in ("process", "version", "restarts")
        least = len("well") if title == "health" else None
        table.add_column(
            title,
            justify="right" if right else "left",
            no_wrap=title not in ("health", "address"),
            overflow="fold",
            min_width=least,
        )
    for one in components:
        table.add_row(
            _name(one),
            str(one["pid"] or ""),
            str(one["version"] or ""),
            str(one["restarts"]),
            Text(one["health"], style="green" if one["health"] == "well" else "red"),
            one["address"],
        )
    return table


def _name(one: dict[str, Any]) -> str:
    return f"{one['name']} (shard {one['shard']})" if "shard" in one else str(one["name"])
