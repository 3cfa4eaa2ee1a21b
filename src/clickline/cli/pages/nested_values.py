"""A table of nested values: one row for each, named by its path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.table import Table


def nested_table(values: Mapping[str, object], *, titles: tuple[str, str] = ("fact", "value")) -> Table:
    """A table of names such as training.step, and values with commas between thousands."""
    table = Table(*titles)
    for name, value in _leaves(values):
        is_count = isinstance(value, int) and not isinstance(value, bool)
        table.add_row(name, f"{value:,}" if is_count else str(value))
    return table


def _leaves(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
