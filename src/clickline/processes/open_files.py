"""The limit on open files of a process that serves: each connection is one."""

from __future__ import annotations

import resource
from contextlib import suppress


def raise_open_file_limit() -> None:
    """As many as the system lets us have. The usual 1024 is for programs that call select(), which ours do not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # as before, then
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
