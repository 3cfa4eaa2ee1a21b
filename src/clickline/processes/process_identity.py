"""Which process one is: by machine, number and birth, so that another process can tell whether it still lives.

Imports nothing of the project: any layer may use it.
"""

from __future__ import annotations

import os
from pathlib import Path


def machine() -> str:
    """Names the kernel's boot and the process id namespace: the same for those who can see each other's numbers."""
    try:
        return f"{boot_id()} {os.readlink('/proc/self/ns/pid')}" if boot_id() else ""  # noqa: PTH115  (it is no path)
    except OSError:
        return ""


def boot_id() -> str:
    """Of this run of the machine: births are counted from its beginning. Empty if the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def birth(pid: int | None) -> int:
    """When a process began, in the kernel's ticks: tells it from a later one with its number. 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    # Counted after the name in parentheses, which may contain spaces: 0 is the state, 19 the start time. A zombie has
    # ended, although its number is still taken.
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])


def proven_dead(*, on: str, pid: int, born: int) -> bool:
    """Whether a process of that machine has ended; False if it lives, and if it cannot be seen from here."""
    return bool(on) and on == machine() and pid > 0 and born > 0 and birth(pid) != born


def alive(pid: int) -> bool:
    """Whether there is a process of this number now, whoever it belongs to."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
