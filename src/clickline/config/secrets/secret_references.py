"""Secrets by reference: `${env:NAME}` in a job stands for the environment variable NAME.

Resolved where the value is used and nowhere earlier, so that a printed, logged or saved job holds the reference only.
Beware: an error message may name the variable, never its value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from clickline.errors import JobError

_REFERENCE = re.compile(r"\$\{env:([^}]*)\}")


def resolve(value: str) -> str:
    """`value` with every `${env:NAME}` replaced; text without a reference comes back as it is."""
    return _REFERENCE.sub(_lookup, value)


def resolve_within(value: Any) -> Any:
    """The same for a value of any shape: every text in it, at any depth."""
    if isinstance(value, str):
        return resolve(value)
    if isinstance(value, Mapping):
        return {name: resolve_within(inner) for name, inner in value.items()}
    return [resolve_within(inner) for inner in value] if isinstance(value, list | tuple) else value


def _lookup(match: re.Match[str]) -> str:
    name = match[1]
    if not name.isidentifier():
        raise JobError(f"'{match[0]}' must name an environment variable, as in ${{env:S3_SECRET}}")
    found = os.environ.get(name)
    if found is None:
        raise JobError(f"the job refers to the environment variable {name}, which is not set: export {name} first")
    return found
