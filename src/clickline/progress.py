"""What a person sees of a run: a progress bar on a terminal, plain lines elsewhere, nothing when asked for silence."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

log = logging.getLogger("clickline.train")


class Watcher(Protocol):
    """Told of everything worth seeing."""

    def say(self, text: str) -> None: ...

    def begin(self, title: str) -> None: ...

    def advance(self, *, share: float | None, facts: dict[str, Any]) -> None: ...

    def end(self) -> None: ...


class Silent:
    """For programs: the log is enough."""

    def say(self, text: str) -> None:
        log.info(text)

    def begin(self, title: str) -> None:
        log.info(title)

    def advance(self, *, share: float | None, facts: dict[str, Any]) -> None:
        pass

    def end(self) -> None:
        pass


class Lines(Silent):
    """For logs and pipes: a line now and then, flushed."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, title: str) -> None:
        self.say(title)


class Bar(Silent):
    """For a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._task = TaskID(0)

    def say(self, text: str) -> None:
        (self._progress.console if self._progress else self._console).print(text, markup=False, highlight=False)

    def begin(self, title: str) -> None:
        self.end()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[facts]}"),
            console=self._console,
            transient=True,
        )
        self._progress.start()
        self._task = self._progress.add_task(title, total=None, facts="")

    def advance(self, *, share: float | None, facts: dict[str, Any]) -> None:
        if self._progress is not None:
            text = "  ".join(f"{name} {value}" for name, value in facts.items())
            total = None if share is None else 1.0
            self._progress.update(self._task, total=total, completed=share or 0.0, facts=text)

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def watcher_for(console: Console) -> Watcher:
    """A bar where somebody watches, lines where nobody does."""
    return Bar(console) if console.is_terminal else Lines(console)
