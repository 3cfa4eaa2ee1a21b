"""What travels through a predictor: a question, its answer, or an error with a reason; and what is counted on the way.

Every protocol speaks of the same reasons, so that a client sees the same thing go wrong whichever way it asks. `refuse`
is how they are made: a reason that is not listed is a bug, found at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from clickline.data.batch import Batch
from clickline.errors import ClicklineError

REASONS = {
    "malformed": 400,
    "unknown_feature": 400,
    "wrong_type": 400,
    "wrong_shape": 400,
    "not_finite": 400,
    "unauthorised": 401,
    "unknown_model": 404,
    "unknown_version": 404,
    "unknown_path": 404,
    "wrong_method": 405,
    "too_large": 413,
    "overloaded": 429,
    "internal": 500,
    "not_ready": 503,
    "draining": 503,
    "rows_unavailable": 503,
    "timeout": 504,
}
"""Why a request can fail, and the HTTP status that says so."""


class RequestError(ClicklineError):
    """A request that is not answered. The message is for whoever asked."""

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        status: int,
        retry_after: float | None = None,
        mistakes: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.reason, self.status, self.retry_after = reason, status, retry_after
        """retry_after: seconds after which it may go better; None if the same request cannot."""
        self.mistakes = tuple(mistakes)
        """Reason and message of each, if there are several; the message of the error has them all."""


def refuse(reason: str, message: str, retry_after: float | None = None) -> RequestError:
    """The error for a reason, to be raised."""
    return RequestError(message, reason=reason, status=REASONS[reason], retry_after=retry_after)


def refuse_all(mistakes: Sequence[tuple[str, str]], *, complete: bool = True) -> RequestError:
    """The error for all mistakes of a request, each a reason and a message. `complete`: whether there are no others."""
    if len(mistakes) == 1:
        return refuse(mistakes[0][0], f"{mistakes[0][1]}.")
    reason = mistakes[0][0]
    count = f"{len(mistakes)} mistakes" if complete else f"{len(mistakes)} mistakes, and the rest was not looked at"
    message = f"{count}: {'; '.join(f'({n}) {said}' for n, (_, said) in enumerate(mistakes, 1))}."
    return RequestError(message, reason=reason, status=REASONS[reason], mistakes=mistakes)


@dataclass(frozen=True, slots=True)
class Question:
    """Rows to predict for."""

    batch: Batch
    missing: int
    """Values of columns that had to be filled in, whatever number of features are read from each."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one version says to one question."""

    probability: NDArray[np.float32]
    """[rows, labels]"""
    version: int
    model: str
    tag: str
    """Of the variant that was drawn; empty if nothing was split."""
    labels: tuple[str, ...]


class Counting(Protocol):
    """Where events are counted. Every call must take less than a microsecond: some are made for every request."""

    def count(self, name: str, value: float = 1.0, label: str = "") -> None: ...
    def observe(self, name: str, seconds: float, label: str = "") -> None: ...
    def observe_all(self, name: str, values: NDArray[np.float32], label: str = "") -> None: ...
    def gauge(self, name: str, value: float, label: str = "") -> None: ...


class NoCounts:
    """For whoever does not want to know."""

    def count(self, name: str, value: float = 1.0, label: str = "") -> None: ...
    def observe(self, name: str, seconds: float, label: str = "") -> None: ...
    def observe_all(self, name: str, values: NDArray[np.float32], label: str = "") -> None: ...
    def gauge(self, name: str, value: float, label: str = "") -> None: ...
