"""How often and how soon a process that died is started again.

Deaths count within a sliding window, and not at all any more once a process has run well for a while: what happened an
hour ago must not make anybody wait now. The pause doubles with each death that counts.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

FIRST_PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Of one process."""

    restarts: int | None = 0
    """Within the window; None: without end."""
    window: float = math.inf
    """Seconds for which a death counts."""
    well_after: float = math.inf
    """When it has run for so many seconds, its earlier deaths are forgotten."""
    longest_pause: float = 15.0


SERVING = RestartPolicy(restarts=None, window=60.0, well_after=30.0, longest_pause=2.0)
"""For processes that serve: they are started again for ever, and soon."""


class RecentDeaths:
    """Those of one process that still count."""

    def __init__(self, policy: RestartPolicy) -> None:
        self.policy = policy
        self._times: list[float] = []
        self._started = time.monotonic()

    def started(self) -> None:
        self._started = time.monotonic()

    def died(self) -> None:
        """One more, now."""
        # First forget what a long good run has made up for: this death then counts as the first.
        self.look(running=True)
        self._times.append(time.monotonic())

    def look(self, *, running: bool) -> int:
        """How many count."""
        now = time.monotonic()
        if running and now - self._started >= self.policy.well_after:
            self._times.clear()
        self._times = [moment for moment in self._times if now - moment <= self.policy.window]
        return len(self._times)

    @property
    def count(self) -> int:
        return len(self._times)

    @property
    def may_start_again(self) -> bool:
        return self.policy.restarts is None or self.count <= self.policy.restarts

    @property
    def pause(self) -> float:
        """Seconds until the next start."""
        # The exponent is limited: 2.0 ** 1024 raises OverflowError, and the number of restarts may be unlimited.
        return min(self.policy.longest_pause, FIRST_PAUSE * 2.0 ** min(self.count - 1, 30))
