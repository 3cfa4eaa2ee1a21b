"""A page that is shown again each second: in place on a terminal, one below the other elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.live import Live

from clickline.cli.shared.output import results

_EVERY = 1.0
_Seen = TypeVar("_Seen")
"""What is looked at."""


def watch(
    look: Callable[[], _Seen], *, page: Callable[[_Seen], RenderableType], over: Callable[[_Seen], bool]
) -> _Seen:
    """Look and show until it is over; gives back what was seen last."""
    console = results()
    with _Below(console) if not console.is_terminal else Live(console=console, auto_refresh=False) as screen:
        while True:
            seen = look()
            screen.update(page(seen), refresh=True)
            if over(seen):
                return seen
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
        # Compared as rendered text, since two pages that look alike are different objects.
        with self._console.capture() as captured:
            self._console.print(page)
        if captured.get() != self._before:
            self._before = captured.get()
            print(self._before, end="", flush=refresh)
