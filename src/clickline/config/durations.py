"""Durations: a key that holds seconds takes a number of them, or 30s, 15m, 12h or 7d."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import PydanticCustomError

PATTERN = r"^\d+(\.\d+)?[smhd]$"
Text = Annotated[str, Field(pattern=PATTERN)]
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(value: Any) -> Any:
    """The seconds that a text such as 7d stands for, whole if the text is; what is not text comes back as it is."""
    if not isinstance(value, str):
        return value
    if not is_duration(value):
        message = "{value} is not a duration; write a number of seconds, or one such as 30s, 15m, 12h or 7d"
        raise PydanticCustomError("duration", message, {"value": f'"{value[:60]}"'})
    number, unit = value[:-1], _UNITS[value[-1]]
    # Whole where possible: integer keys are checked strictly and would refuse 604800.0.
    return int(number) * unit if number.isdecimal() else float(number) * unit


def is_duration(value: Any) -> bool:
    """Whether this is a text such as 7d."""
    return isinstance(value, str) and re.fullmatch(PATTERN, value) is not None
