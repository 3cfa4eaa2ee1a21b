"""State that outlives a process: a JSON file with one writer, replaced as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clickline.errors import VersionError
from clickline.files.atomic import replace_json

_LIMIT = 64 << 20


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Replace the file; when this returns, a crash of the machine cannot take it back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_json(path, state, only_writer=True)


def read_state(path: Path) -> dict[str, Any] | None:
    """What was written last; None if nothing was."""
    try:
        if path.stat().st_size > _LIMIT:
            raise VersionError(f"{path}: larger than {_LIMIT} bytes; not a state file")
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise VersionError(f"{path}: cannot be read: {error}; remove it to begin without what it knew") from None
    if not isinstance(state, dict):
        raise VersionError(f"{path}: not a JSON object; remove it to begin without what it knew")
    return state
