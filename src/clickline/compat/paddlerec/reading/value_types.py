"""Types of values in PaddleRec's files: as forgiving as PaddleRec was, where the meaning is certain.

Its YAML library follows YAML 1.1, by which yes and on are booleans, and its code changes the case of many words before
it compares them. Credentials are kept apart from the moment they are read: nothing prints them, no message repeats
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_core import PydanticCustomError

_SWITCHES = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}


@dataclass(frozen=True, slots=True)
class NotCarried:
    """Why a key that is given has no counterpart in a job, and what to do instead; metadata of its field."""

    reason: str


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _switch(value: Any) -> Any:
    if isinstance(value, str):
        return _SWITCHES.get(value.lower(), value)
    # PaddleRec's own files have 0 and 1 where its documentation says True and False.
    return bool(value) if value in (0, 1) and isinstance(value, int) else value


def _whole(value: Any) -> Any:
    """Let 1_000 and "3" be numbers, as they are by YAML 1.1, or after PaddleRec's int()."""
    if isinstance(value, str) and len(value) < 20 and value.replace("_", "").isascii():
        digits = value.replace("_", "")
        return int(digits) if digits.isdigit() else value
    return value


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _listed(value: Any) -> Any:
    return value.replace(",", " ").split() if isinstance(value, str) else value


def _one_path(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _concealed(value: Any) -> Any:
    # Whatever it is, it becomes text here: a message about its type would have to show it.
    if isinstance(value, dict | list):
        raise PydanticCustomError("secret", "not text; a credential is one, as ${{env:NAME}} if possible")
    return str(value)


def is_written_out(value: SecretStr) -> bool:
    """Whether a credential is there and stands in the file itself."""
    text = value.get_secret_value()
    return bool(text) and not text.startswith("${env:")


Lower = BeforeValidator(_lower)
"""Words are compared in lower case."""
Switch = Annotated[bool, BeforeValidator(_switch)]
Whole = Annotated[int, BeforeValidator(_whole)]
Positive = Annotated[int, Field(ge=1, le=10**12), BeforeValidator(_whole)]
Interval = Annotated[int, Field(ge=-1, le=10**12), BeforeValidator(_whole)]
"""Epochs or batches between two of something; 0 or -1 is never."""
NotEmpty = Annotated[str, Field(min_length=1), BeforeValidator(_text)]
Text = Annotated[str, BeforeValidator(_text)]
Names = Annotated[list[NotEmpty], BeforeValidator(_listed)]
"""A list, or one text with spaces between the names."""
Paths = Annotated[list[NotEmpty], Field(min_length=1), BeforeValidator(_one_path)]
"""One path, which may have spaces in it, or a list."""
Credential = Annotated[SecretStr, BeforeValidator(_concealed)]
