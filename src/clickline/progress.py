"""Progress of long work: a bar on a terminal, plain lines elsewhere, the log alone for programs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

log = logging.getLogger("clickline.train")


class Watcher(Protocol):
    """What long work reports its progress to."""

    def say(self, text: str) -> None: ...

    def begin(self, title: str) -> None: ...

    def advance(self, *, share: float | None, facts: Mapping[str, object]) -> None: ...

    def end(self) -> None: ...


class LogOnly:
    """Writes to the log and shows nothing: for programs."""

    def say(self, text: str) -> None:
        log.info(text)

    def begin(self, title: str) -> None:
        log.info(title)

    def advance(self, *, share: float | None, facts: Mapping[str, object]) -> None:
        pass

    def end(self) -> None:
        pass


class PlainLines(LogOnly):
    """Prints lines, but no progress: for files and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        # Not through the console, which turns tabs into spaces: lines may be for programs.
        self._console.file.write(f"{text}\n")
        self._console.file.flush()

    def begin(self, title: str) -> None:
        self.say(title)


class ProgressBar(LogOnly):
    """Draws a bar with figures beside it: for a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._task = TaskID(0)

    def say(self, text: str) -> None:
        # Through the console of the bar while there is one: it prints the line above the bar and redraws the bar.
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

    def advance(self, *, share: float | None, facts: Mapping[str, object]) -> None:
        if self._progress is not None:
            text = "  ".join(f"{name} {value}" for name, value in facts.items())
            total = None if share is None else 1.0
            self._progress.update(self._task, total=total, completed=share or 0.0, facts=text)

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def watcher_for(console: Console) -> Watcher:
    """A bar on a terminal, lines elsewhere."""
    return ProgressBar(console) if console.is_terminal else PlainLines(console)
