"""Whether this process may and can still write to the run's directory."""

from __future__ import annotations

import time
from collections.abc import Callable

from clickline.errors import ClicklineError, ReplacedError
from clickline.ps.coordinator.state.record import RecordFile
from clickline.train.monitoring.journal import Journal

_CHECK_EVERY = 0.5
"""Seconds."""


class DirectoryGuard:
    """Finds out that another process has the directory, or that a thread could not write what it must."""

    def __init__(self, file: RecordFile, journal: Journal) -> None:
        self._file, self._journal = file, journal
        self._checked = time.monotonic()

    def failure(self) -> ClicklineError | None:
        """Why the run must end, if so."""
        try:
            self._file.check_holder()
        except ReplacedError as error:
            return error
        except OSError:  # the next write will fail, and say why
            pass
        # Handlers write on the wire's threads, where nobody could catch an error: they keep it instead.
        return self._file.failure or self._journal.failure

    def checked(self, poll: Callable[[], None]) -> Callable[[], None]:
        """`poll`, and now and then a check, which raises."""

        def poll_and_check() -> None:
            if time.monotonic() - self._checked > _CHECK_EVERY:
                self._checked = time.monotonic()
                failure = self.failure()
                if failure is not None:
                    raise failure
            poll()

        return poll_and_check
