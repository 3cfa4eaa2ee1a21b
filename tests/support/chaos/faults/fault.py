"""What every kind of fault has in common, and the table of all kinds."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from support.chaos.workload.workload import Workload

KINDS: dict[str, type[Fault]] = {}
"""By name."""


class NotNow(Exception):
    """This fault makes no sense at this moment (nothing trains, say): it is left out and counted as such."""


class Fault(ABC):
    """One kind of fault. `inject` does the harm, waits, and undoes it; what was hit must recover by itself after it.

    `name` is what the plan and the table call it (docs/robustness.md says what should hold in spite of it).
    """

    name: ClassVar[str]

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "name" in cls.__dict__:
            KINDS[cls.name] = cls

    def __init__(self, workload: Workload, target: str, seed: int, over: threading.Event) -> None:
        """`over` is set when the run is to end: whoever waits, waits for it too."""
        self.workload, self.target, self.over = workload, target, over
        self.random = random.Random(seed)

    @abstractmethod
    def inject(self) -> str:
        """Harm and undo; says in a word or two what came of it. Raises NotNow."""

    def hold(self, shortest: float, longest: float) -> float:
        """Leave things as they are for a while."""
        seconds = self.random.uniform(shortest, longest)
        self.over.wait(seconds)
        return seconds
