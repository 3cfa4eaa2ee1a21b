"""Columns that a job reads and the data does not have: which was meant, or which delimiter."""

from __future__ import annotations

from collections.abc import Sequence

from clickline.config.loading.suggestions import did_you_mean

_DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar", " ": "space"}


def missing_column(name: str, known: Sequence[str]) -> str:
    """The message about a column that is not there: what is, and what was meant as far as that can be guessed."""
    if delimiter := likely_delimiter(known):
        return (
            f"there is no column {name!r} in the data; its only column is {_short(known[0])}: is the delimiter a "
            f"{_DELIMITERS[delimiter]}? Then set data.delimiter to {_yaml(delimiter)}"
        )
    meant = did_you_mean(name, known)
    return f"there is no column {name!r} in the data;{meant} its columns are: {', '.join(known)}"


def likely_delimiter(columns: Sequence[str]) -> str | None:
    """What separates the columns, if all of them were read as one."""
    if len(columns) != 1:
        return None
    counts = {delimiter: columns[0].count(delimiter) for delimiter in _DELIMITERS}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else None


def _yaml(delimiter: str) -> str:
    return '"\\t"' if delimiter == "\t" else f'"{delimiter}"'


def _short(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:59] + "…")
