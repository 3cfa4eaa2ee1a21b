"""The directory for copies of what lies elsewhere: of this user alone, since what is in it is trusted.

Imports nothing of the project but errors: any layer may use it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from clickline.errors import ClicklineError

VARIABLE = "CLICKLINE_CACHE"


def user_cache(kind: str, *, error: type[ClicklineError], below_variable: str = "") -> Path:
    """Where copies lie: CLICKLINE_CACHE, else the user's cache directory, else a directory for temporary files.

    `kind` is the directory's name among the user's own; `below_variable` the one below what the variable names.
    """
    if named := os.environ.get(VARIABLE):
        return _private(Path(named).expanduser().absolute() / below_variable, error)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  (raises without a home)
    try:
        return _private(Path(home) / "clickline" / kind, error)
    except error:  # as in a container without a home
        return _private(Path(tempfile.gettempdir()) / f"clickline-cache-{os.getuid()}" / below_variable, error)


def _private(path: Path, error: type[ClicklineError]) -> Path:
    """Make a directory that only this user can write to, since its files are served."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Also of a directory that exists: in a shared temporary directory another user may have made it first.
        status = path.stat()
    except OSError as trouble:
        raise error(f"{path}: cannot be made: {trouble.strerror}; {VARIABLE} names another directory") from trouble
    if status.st_uid != os.getuid() or status.st_mode & 0o022 or path.is_symlink():
        raise error(f"{path}: others can write there; {VARIABLE} names another directory for copies")
    return path
