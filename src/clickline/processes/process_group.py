"""What LocalCube and Suite share: processes that live as long as a `with`, also if starting them fails half way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Self


class Together(ABC):
    """Starts on the way in; on the way out, ends what `_stack` knows of, last first."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    @abstractmethod
    def _start(self) -> None:
        """Start everything, and tell `_stack` how each part is ended before it can fail."""

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
