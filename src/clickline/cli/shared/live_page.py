"""Showing something again each second: in place on a terminal, one page below the other elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

from clickline.cli.shared.output import results

_EVERY = 1.0


def watch(
    look: Callable[[], dict[str, Any]],
    *,
    page: Callable[[dict[str, Any]], RenderableType],
    over: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """Look and show until it is over; gives back what was seen last."""
    console = results()
    with _Below(console) if not console.is_terminal else Live(console=console, auto_refresh=False) as place:
        while True:
            found = look()
            place.update(page(found), refresh=True)
            if over(found):
                return found
            time.sleep(_EVERY)


class _Below:
    """In place of Live, which prints nothing into a file or a pipe before its end. Leaves out what says nothing new."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._before = ""

    def __enter__(self) -> _Below:
        return self

    def __exit__(self, *_: object) -> None: ...

    def update(self, page: RenderableType, *, refresh: bool) -> None:
        with self._console.capture() as captured:
            self._console.print(page)
        if captured.get() != self._before:
            self._before = captured.get()
            print(self._before, end="", flush=refresh)
