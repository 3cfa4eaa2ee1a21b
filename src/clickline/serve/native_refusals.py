"""Refusals of the native request readers as RequestErrors."""

from __future__ import annotations

from collections.abc import Sequence

from clickline._native import Refused
from clickline.config.loading.suggestions import suggestion
from clickline.net.request_errors import RequestError, refuse_all


def refusal_of(error: Refused, *, features: Sequence[str] = ()) -> RequestError:
    """The error for what native code refused. `features`: the known ones, to suggest one for an unknown name."""
    reason, message, unknown, further, stopped = error.args
    mistakes = [
        (why, f"{text}; {suggestion(name, features, kind='features')}" if name else text)
        for why, text, name in ((reason, message, unknown), *further)
    ]
    return refuse_all(mistakes, complete=not stopped)
