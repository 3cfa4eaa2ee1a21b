"""A run in namespaces of its own: its mounts and processes are gone when it is, however it ends, SIGKILL included.

Root may do that; so may others where the kernel gives user namespaces to everybody. Where neither is so the run takes
place without, and leaves out what needs a mount.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

INSIDE = "CHAOS_NAMESPACES"
"""Set to 1 within them, to 0 where there are none to be had."""
# The shell is the first process of the namespace: it collects the dead that have lost their parents.
_SHELL = ("sh", "-c", '"$@"; exit $?', "sh")


def enter(arguments: Sequence[str]) -> bool:
    """Start this program anew in namespaces, which does not return; or say whether we are in some."""
    if INSIDE in os.environ:
        return os.environ[INSIDE] == "1"
    command = _unshare()
    if command is None:
        os.environ[INSIDE] = "0"
        return False
    os.environ[INSIDE] = "1"
    program = [sys.executable, "-m", "support.chaos", *arguments]
    os.execvp(command[0], [*command, *_SHELL, *program])  # noqa: S606
    raise AssertionError("not reached")


def _unshare() -> list[str] | None:
    if shutil.which("unshare") is None:
        return None
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command += [] if os.getuid() == 0 else ["--map-root-user"]
    tried = subprocess.run([*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False)
    return command if tried.returncode == 0 else None
