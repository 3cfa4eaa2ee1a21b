"""The processes of a run for people: a table where it fits, else a line for each, so that no figure is ever cut off."""

from __future__ import annotations

from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

FIGURES = {
    "silent": "silent s",
    "rows_per_second": "rows/s",
    "queue": "queue",
    "staleness": "staleness",
    "memory_mib": "MiB",
    "retries": "retries",
}
"""Keys of a member, and how each is headed."""
_STYLES = {"well": "green", "done": "green", "joining": "cyan", "slow": "yellow", "dead": "red"}
_WIDE = 10_000


class Members:
    """Renders members of a status."""

    def __init__(self, members: list[dict[str, Any]]) -> None:
        self._members = members

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table()
        # Measured as if there were room without end: rich limits a measurement to the width that it is given.
        if Measurement.get(console, options.update(width=_WIDE), table).minimum <= options.max_width:
            yield table
        else:
            for member in self._members:
                figures = [f"{title} {shown(member[key])}" for key, title in FIGURES.items() if key in member]
                yield Text.assemble(member["name"], " ", _state(member), ", ", ", ".join(figures))

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for title in ("process", "state"):
            table.add_column(title, no_wrap=True)
        for title in FIGURES.values():
            table.add_column(title, justify="right", no_wrap=True)
        for member in self._members:
            table.add_row(member["name"], _state(member), *(shown(member.get(key)) for key in FIGURES))
        return table


def shown(value: Any) -> str:
    """A figure for people; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _state(member: dict[str, Any]) -> Text:
    state = str(member["state"])
    return Text(state, style=_STYLES.get(state, ""))
