"""Errors of prediction requests: why a predictor refused one, as server and clients both know it.

Every protocol uses the same reasons, so that a client sees the same cause whichever protocol it speaks. `refuse` makes
the errors: a reason that is not listed in `REASONS` is a bug and raises KeyError at once.
"""

from __future__ import annotations

from collections.abc import Sequence

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
"""Why a request can fail, each with its HTTP status."""


class RequestError(ClicklineError):
    """Raised when a prediction request is refused or fails. The message is meant for the client."""

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
        """retry_after: seconds after which the same request may succeed; None if it cannot."""
        self.mistakes = tuple(mistakes)
        """Reason and message of each mistake, if there are several; the message of the error lists all of them."""


def refuse(reason: str, message: str, retry_after: float | None = None) -> RequestError:
    """Create the error for a reason; the caller raises it."""
    return RequestError(message, reason=reason, status=REASONS[reason], retry_after=retry_after)


def refuse_all(mistakes: Sequence[tuple[str, str]], *, complete: bool = True) -> RequestError:
    """Create the error for all mistakes of a request, each a reason and a message.

    `complete`: whether the whole request was checked, so that there are no other mistakes.
    """
    if len(mistakes) == 1:
        return refuse(*mistakes[0])
    reason = mistakes[0][0]
    count = f"{len(mistakes)} mistakes" if complete else f"{len(mistakes)} mistakes, and the rest was not checked"
    message = f"{count}: {'; '.join(f'({n}) {text}' for n, (_, text) in enumerate(mistakes, 1))}"
    return RequestError(message, reason=reason, status=REASONS[reason], mistakes=mistakes)
