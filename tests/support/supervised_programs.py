"""Small programs that behave as a supervisor must expect, and a supervisor over them. Real processes, real signals."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from clickline.processes.supervisor import Spec, Supervisor
from support.eventually import eventually

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
IGNORES_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPS
DIES_WITH_PARENT = "from clickline.processes.child import live_no_longer_than_parent as l; l(); " + SLEEPS
HAS_A_CHILD = (
    "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    "print('child', p.pid, flush=True); "
)


def fails(code: int, *, says: str = "last words") -> str:
    return f"import sys; print({says!r}, flush=True); sys.exit({code})"


def spec(directory: Path, program: str, *, role: str = "trainer", rank: int = 0, restart: bool = True) -> Spec:
    log = directory / "logs" / f"{role}.{rank}.log"
    return Spec(role=role, rank=rank, argv=[sys.executable, "-c", program], env={}, log=log, restart=restart)


class EventTexts(list[str]):
    """What a supervisor reports, as texts."""

    def append(self, event: object) -> None:
        super().append(str(event))


def alive(pid: int) -> bool:
    """Whether it runs: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def exists(pid: int) -> bool:
    """Whether it is in the process table, be it as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def finish(supervisor: Supervisor) -> None:
    """As its `wait`, but a supervisor that never ends is a failure."""
    eventually(supervisor.finished, doing=supervisor.poll)
