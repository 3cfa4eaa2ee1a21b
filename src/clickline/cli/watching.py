"""Showing something again each second: in place on a terminal, one page below the other elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.console import RenderableType
from rich.live import Live

from clickline.cli.output import results

_EVERY = 1.0


def watch(
    look: Callable[[], dict[str, Any]],
    *,
    page: Callable[[dict[str, Any]], RenderableType],
    over: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """Look and show until it is over; gives back what was seen last."""
    console = results()
    if not console.is_terminal:
        return _below(look, page=page, over=over)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            found = look()
            live.update(page(found), refresh=True)
            if over(found):
                return found
            time.sleep(_EVERY)


def _below(
    look: Callable[[], dict[str, Any]],
    *,
    page: Callable[[dict[str, Any]], RenderableType],
    over: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """A file or a pipe has no place to go back to, so a page that says nothing new is left out."""
    before = ""
    while True:
        found = look()
        console = results()
        with console.capture() as captured:
            console.print(page(found))
        if captured.get() != before:
            before = captured.get()
            print(before, end="", flush=True)
        if over(found):
            return found
        time.sleep(_EVERY)
