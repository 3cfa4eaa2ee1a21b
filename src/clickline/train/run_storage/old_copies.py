"""Removes local copies of runs at URLs that nobody has used for a week, so that they do not fill the disk.

A copy in which a run works goes only if the upload of its run was complete: everything in it is at the URL then, and
`--resume` fetches it again. A copy that is only read goes in any case. Both stay while a process holds their lock.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from clickline.files.locks import open_lock_file, try_lock

log = logging.getLogger("clickline.run")
KEPT_DAYS = 7
_SECONDS_OF_A_DAY = 86_400


def remove_old_copies(own: Path, *, lock: str, record: str, is_spare: Callable[[Path], bool] = lambda _: True) -> None:
    """Remove copies beside one's `own`, which lies two levels below the directory of all of them.

    `lock` is the name of the file that users of a copy lock, `record` of one that they write whenever they use it.
    `is_spare` says whether a copy may go.
    """
    before = time.time() - KEPT_DAYS * _SECONDS_OF_A_DAY
    for copy in own.parent.parent.glob("*/*"):
        with suppress(OSError):
            if copy != own and (copy / record).stat().st_mtime < before and is_spare(copy):
                _remove(copy, lock)


def _remove(copy: Path, lock: str) -> None:
    descriptor = open_lock_file(copy / lock)
    try:
        if not try_lock(descriptor):
            return
        # Out of the way at once: whoever comes now makes a copy of its own.
        aside = copy.with_name(f".{copy.name}.removed-{os.getpid()}-{os.urandom(2).hex()}")
        copy.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
        log.info("removed %s, a local copy that was not used for %d days", copy, KEPT_DAYS)
    finally:
        os.close(descriptor)
    with suppress(OSError):  # others are in it
        copy.parent.rmdir()
