"""What this machine has: processor, memory, and what of both the process may use.

Everything is read from places that may be missing: another system, a container, a sandbox. What cannot be found out is
None, never an error.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

_FEATURES = ("avx2", "fma", "avx512f", "avx512bw", "avx512_bf16", "amx_tile", "neon", "asimd", "sve")


@dataclass(frozen=True, slots=True)
class Machine:
    system: str
    cpu: str
    cores: int | None
    """Of the machine."""
    usable_cores: float | None
    """What this process may use: its affinity, and the quota of its container."""
    features: list[str]
    memory_bytes: int | None
    usable_memory_bytes: int | None
    """Free for this process now, within the limit of its container."""


def inspect(*, proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> Machine:
    """Look at the machine. The arguments are for tests."""
    cpuinfo = _fields(proc / "cpuinfo")
    meminfo = _fields(proc / "meminfo")
    flags = set((cpuinfo.get("flags") or cpuinfo.get("Features") or "").split())
    total = _kilobytes(meminfo.get("MemTotal"))
    limits = (_kilobytes(meminfo.get("MemAvailable")), _memory_left(cgroup))
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=cpuinfo.get("model name") or platform.processor() or platform.machine() or "unknown",
        cores=os.cpu_count(),
        usable_cores=_usable_cores(cgroup),
        features=[feature for feature in _FEATURES if feature in flags],
        memory_bytes=total,
        usable_memory_bytes=min((limit for limit in limits if limit is not None), default=None),
    )


def _fields(file: Path) -> dict[str, str]:
    """The first value of each `name: value` line."""
    fields: dict[str, str] = {}
    for line in _read(file).splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _kilobytes(text: str | None) -> int | None:
    number = (text or "").removesuffix("kB").strip()
    return int(number) * 1024 if number.isdigit() else None


def _memory_left(cgroup: Path) -> int | None:
    limit, used = _read(cgroup / "memory.max").strip(), _read(cgroup / "memory.current").strip()
    return max(0, int(limit) - int(used or 0)) if limit.isdigit() else None


def _usable_cores(cgroup: Path) -> float | None:
    try:
        affinity: float | None = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on macOS and Windows
        affinity = os.cpu_count()
    # Microseconds of processor time per period of so many microseconds; the text `max` means that there is no limit.
    quota, _, period = _read(cgroup / "cpu.max").strip().partition(" ")
    if affinity is None or not (quota.isdigit() and period.isdigit() and int(period)):
        return affinity
    return min(affinity, int(quota) / int(period))
