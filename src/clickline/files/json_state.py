"""State that outlives a process: one JSON file, replaced as a whole: a reader finds the old one or the new one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clickline.errors import VersionError
from clickline.files.atomic import sync_directory

_LIMIT = 64 << 20


def write_state(path: Path, facts: Mapping[str, Any]) -> None:
    """Replace the file; when this returns, a crash of the machine cannot take it back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.new")
    with aside.open("w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_directory(path.parent)


def read_state(path: Path) -> dict[str, Any] | None:
    """What was written last; None if nothing was."""
    try:
        if path.stat().st_size > _LIMIT:
            raise VersionError(f"{path}: larger than {_LIMIT} bytes; not a state file")
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise VersionError(f"{path}: cannot be read: {error}; remove it to begin without what it knew") from None
    if not isinstance(found, dict):
        raise VersionError(f"{path}: no JSON object; remove it to begin without what it knew")
    return found
