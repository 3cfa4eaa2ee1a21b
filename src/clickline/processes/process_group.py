"""A group of processes that live as long as a `with`: none is left if starting them fails half way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Self


class ProcessGroup(ABC):
    """Base of groups of processes: started on the way in; on the way out, what `_stack` holds is ended, last first."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    @abstractmethod
    def _start(self) -> None:
        """Start everything; `_stack` gets what ends each part before that part can fail."""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
