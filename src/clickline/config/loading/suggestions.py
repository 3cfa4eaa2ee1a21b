"""Suggestions for mistyped words: the closest known one, or a list of those that are known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LISTED = 20
"""So many known words are listed when none is close; more would bury the message."""


def closest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word most like `word`, whatever the case and whether - or _ joins it; None if none is like it."""
    by_folded = {_folded(candidate): candidate for candidate in known}
    matches = get_close_matches(_folded(word), by_folded, n=1, cutoff=cutoff)
    return by_folded[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` did you mean dropout?`, to append to a message; empty if no known word is close."""
    match = closest(word, known)
    return f" did you mean {match}?" if match else ""


def suggestion(word: str, known: Iterable[str], *, kind: str) -> str:
    """`did you mean dropout?`, or what is known if nothing is close. `kind` is the plural: keys, formats, …"""
    words = list(known)
    if match := closest(word, words):
        return f"did you mean {match}?"
    rest = "" if len(words) <= _LISTED else f", … ({len(words)} in all)"
    return f"known {kind}: {', '.join(words[:_LISTED])}{rest}"


def _folded(word: str) -> str:
    return word.casefold().replace("-", "_")
