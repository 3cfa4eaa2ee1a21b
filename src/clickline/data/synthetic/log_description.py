"""The shapes of what is written beside a synthetic log: its description, and the part of a job that fits it."""

from __future__ import annotations

from typing import Any, TypedDict

JobPart = dict[str, Any]
"""Some sections of a job, as YAML holds them."""


class LogDescription(TypedDict):
    """How a log was made."""

    options: dict[str, object]
    vocabulary: dict[str, int]
    """The number of values of each slot."""


class WrittenLog(TypedDict):
    """PATH.json of a log: its options, its files, and the best scores that a model can reach on them."""

    log: str
    seed: int
    rows: int
    options: dict[str, object]
    vocabulary: dict[str, int]
    files: dict[str, list[str] | str]
    train: dict[str, object]
    test: dict[str, object] | None
