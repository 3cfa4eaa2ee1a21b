"""The log of a run that no launcher keeps one for: one process on a terminal, or a rank that torchrun has started.

It has the lines that a person sees, and the program's own warnings, in the form and at the place of every process's
log: RUN/logs/trainer.0.log, where `clickline logs` finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clickline.errors import ClicklineError, ReplacedError
from clickline.processes.logs import LogFile

if TYPE_CHECKING:
    from clickline.progress import Watcher

log = logging.getLogger("clickline")


@contextmanager
def run_log(directory: Path, *, rank: int, watcher: Watcher | None) -> Iterator[Watcher]:
    """Append to the run's log; yields a watcher that tells the log and `watcher`.

    Nothing is written before the run has something to tell: who is refused the directory leaves it as it is.
    """
    handler = LogFile(directory / "logs" / f"trainer.{rank}.log", "trainer", rank)
    # The last resort prints warnings where logging was not set up. It is not used once there is a handler, which
    # must not make warnings vanish from the terminal.
    printed = None if log.hasHandlers() else logging.lastResort
    handlers = [handler] if printed is None else [handler, printed]
    for each in handlers:
        log.addHandler(each)
    logged = LoggedWatcher(watcher, handler)
    try:
        yield logged
        logged.write("the run has finished")
    except BaseException as error:
        if handler.begun and not isinstance(error, ReplacedError):  # it is another's log then
            logged.write_end(error)
        raise
    finally:
        for each in handlers:
            log.removeHandler(each)
        handler.close()


class LoggedWatcher:
    """Tells another watcher everything, and a log what has a text.

    The lines go to the handler and not through a logger, so that they are in the log whatever level the program that
    trains has set, and do not turn up among that program's own lines.
    """

    def __init__(self, watcher: Watcher | None, handler: LogFile) -> None:
        self._watcher, self._handler = watcher, handler

    def say(self, text: str) -> None:
        if self._watcher is not None:
            self._watcher.say(text)
        self._tell(text)

    def begin(self, title: str) -> None:
        if self._watcher is not None:
            self._watcher.begin(title)
        self._tell(title)

    def advance(self, *, share: float | None, facts: Mapping[str, object]) -> None:
        if self._watcher is not None:
            self._watcher.advance(share=share, facts=facts)

    def end(self) -> None:
        if self._watcher is not None:
            self._watcher.end()

    def write(self, text: str, *, level: int = logging.INFO, error: BaseException | None = None) -> None:
        """A line of the log alone."""
        exception = None if error is None else (type(error), error, error.__traceback__)
        self._handler.handle(logging.LogRecord("clickline.train", level, __file__, 0, text, None, exception))

    def write_end(self, error: BaseException) -> None:
        """How the run ended, if not well: with a traceback where that is a bug."""
        if isinstance(error, KeyboardInterrupt):
            self.write(str(error) or "interrupted", level=logging.WARNING)
        else:
            known = isinstance(error, ClicklineError)
            self.write(f"{type(error).__name__}: {error}", level=logging.ERROR, error=None if known else error)

    def _tell(self, text: str) -> None:
        # Without a watcher, a program that has set up logging gets the lines there, and the handler through it.
        own = logging.getLogger("clickline.train")
        if self._watcher is None and own.isEnabledFor(logging.INFO):  # the program that trains wants such lines
            own.info(text)
        else:
            self.write(text)
