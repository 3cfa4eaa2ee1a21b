"""Reading of Cube's configuration files, and messages about what is wrong in them."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ValidationError

from clickline.errors import JobError


def read_conf(path: str | os.PathLike[str], *, limit: int) -> str:
    """The text of a file of at most `limit` bytes."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise JobError(f"'{path}' cannot be read: {error.strerror}") from None
    if len(data) > limit:
        raise JobError(f"'{path}' is larger than {limit} bytes")
    try:
        # Editors on Windows write a byte order mark, which is no part of the first key.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise JobError(f"'{path}' is not text in UTF-8") from None


def explained(error: ValidationError, source: str, *, prefix: str) -> JobError:
    """Each problem with its key, the value that is there, and what is expected."""
    problems = []
    for problem in error.errors(include_url=False):
        key = ".".join(map(str, problem["loc"])) or "it"
        if problem["type"] == "missing":
            problems.append(f"{prefix}{key} is missing")
        else:
            expected = problem["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
            problems.append(f"{prefix}{key} must be {expected}, got {problem['input']!r:.60}")
    return JobError(f"{source}: " + "; ".join(problems))
