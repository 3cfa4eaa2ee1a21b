"""A suite for people and programs: every component, what it serves, whether it is well."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clickline.cli.shared import live_page
from clickline.cli.shared.output import print_json, results

if TYPE_CHECKING:
    from clickline.launch.suite_record import ComponentHealth, SuiteHealth

SERVING = ("starting", "serving")


def suite_of(where: str | None) -> Path | None:
    """The state directory that is meant, if a suite serves there, or was killed while it did.

    While `up` still trains there, the run is what there is to see.
    """
    from clickline.launch.suite_state import is_up, read_suite

    state = Path(where or "runs")
    health = read_suite(state) if state.is_dir() else None
    if health is None:
        return None
    return state if health.get("phase") in SERVING or not is_up(state) else None


def phase_of(where: str | None) -> str:
    """What `up` is at, before it serves; empty if it is not."""
    from clickline.launch.suite_state import is_up, read_suite

    state = Path(where or "runs")
    health = read_suite(state) if state.is_dir() else None
    if health is None or health.get("phase") in SERVING or not is_up(state):
        return ""
    return str(health.get("phase", ""))


def show_suite(state: Path, *, watch: bool, as_json: bool) -> None:
    """Print it, once or each second until it ends. Exit code 1 if something is not well."""
    from clickline.launch.suite_health import examine

    def look() -> SuiteHealth:
        return examine(state) or {"components": [], "complaints": [], "well": True, "phase": "stopped", "up": False}

    health = live_page.watch(look, page=_page, over=lambda component: not component["up"]) if watch else look()
    if as_json:
        print_json(health)
    elif not watch:
        results().print(_page(health))
    if not health["well"]:
        raise typer.Exit(1)


def _page(health: SuiteHealth) -> RenderableType:
    if not health["components"]:
        return Text(f"suite: {health['phase']}" if health["well"] else "; ".join(health["complaints"]), style="yellow")
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(health["started"]))
    serving = f"version {health['version']} in service" if health["version"] else "no version in service"
    rolling = f", {health['rolling']} on its way" if health["rolling"] else ""
    parts: list[RenderableType] = [
        Text(
            f"{health['model']} at {health['http'] or '…'}: {serving}{rolling}; process {health['pid']}, since {since}"
        ),
        *_size(health),
        _table(health["components"]),
    ]
    return Group(*parts, *(Text(complaint, style="red") for complaint in health["complaints"]))


def _size(health: SuiteHealth) -> list[RenderableType]:
    """Shards, replicas and workers, and what is being done about them."""
    scale = health.get("scale")
    if scale is None:
        return []
    doing = "" if scale["phase"] == "done" else f"; being scaled: {scale['phase']}"
    workers = health.get("workers", 0)
    return [Text(f"cube of {scale['shards']} shards × {scale['replicas']} replicas, {workers} workers{doing}")]


def _table(components: list[ComponentHealth]) -> Table:
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
    for component in components:
        table.add_row(
            _name(component),
            str(component["pid"] or ""),
            str(component["version"] or ""),
            str(component["restarts"]),
            Text(component["health"], style="green" if component["health"] == "well" else "red"),
            component["address"],
        )
    return table


def _name(component: ComponentHealth) -> str:
    return f"{component['name']} (shard {component['shard']})" if "shard" in component else str(component["name"])
