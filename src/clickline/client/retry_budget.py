"""When a client asks again: how often, after which errors, and how much time one call may take in all.

Beware: a request may be sent twice, which is right for predictions only: they change nothing.
"""

from __future__ import annotations

import random
import time

from clickline.client.http_requests import LostConnection
from clickline.errors import PeerError
from clickline.net.request_errors import RequestError

_RETRIED = (429, 503)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class NoAnswer(PeerError):
    """Raised when the time for a call is over."""


class RetryBudget:
    """The time that one call may take with all its retries, and whether to retry after an error."""

    def __init__(self, *, timeout: float, retries: int) -> None:
        self._timeout, self._retries, self._tries = timeout, retries, 0
        self._end = time.monotonic() + timeout

    def left(self) -> float:
        """Seconds that are left. Raises NoAnswer if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.exhausted()
        return left

    def exhausted(self) -> NoAnswer:
        return NoAnswer(f"no answer within {self._timeout:g} s; raise timeout=…")

    def pause_after(self, error: RequestError | LostConnection) -> float:
        """Seconds to wait before the next try. Raises the error itself where a retry would be of no use."""
        self._tries += 1
        refused = isinstance(error, RequestError)
        if self._tries > self._retries or (isinstance(error, RequestError) and error.status not in _RETRIED):
            raise error
        # The server knows best when to come back; a lost connection is retried at once, the first time.
        pause = error.retry_after if isinstance(error, RequestError) else None
        if pause is None:
            longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._tries - 1))
            # Jitter: clients that were refused at the same time must not retry at the same time.
            pause = longest * random.uniform(0.5, 1.0) if refused or self._tries > 1 else 0.0
        if time.monotonic() + pause >= self._end:  # no time would be left for the retry
            raise error
        return pause
