"""Stops the runner of a job on a host, and with it the job's processes there. The last argument is the job's directory.

Prints `stopped`, or `not running`. Runs by itself on the host, so it uses the standard library only.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

_PATIENCE = 20.0
_RUNNER = b"clickline.launch.hosts.host_runner"


def is_runner(pid: int, directory: Path) -> bool:
    """Whether a process is the runner of the job in this directory, and not a later one with its number."""
    try:
        return _RUNNER in Path(f"/proc/{pid}/cmdline").read_bytes() and Path(f"/proc/{pid}/cwd").resolve() == directory
    except OSError:
        return False


def main() -> str:
    directory = Path(sys.argv[-1]).resolve()
    try:
        pid = int((directory / "runner.pid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return "not running"
    if not is_runner(pid, directory):
        return "not running"
    os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + _PATIENCE
    while is_runner(pid, directory):
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)  # its processes end with it
            return "killed"
        time.sleep(0.1)
    return "stopped"


sys.stdout.write(main() + "\n")
