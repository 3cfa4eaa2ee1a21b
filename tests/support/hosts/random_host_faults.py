"""Random faults on a run over two hosts, by a schedule that follows from a seed.

kill    SIGKILL of any process of the run on either host, the coordinator among them: its runner starts another
runner  SIGKILL of a host's runner, with which its processes end: the launcher connects again
stop    SIGSTOP of a process, and SIGCONT after a while, before or after the others have given it up
cut     the other host's cable is pulled, and put back before or after its runner has given the launcher up

The run must end by itself, and its books must balance.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.clusters import settings_for
from support.hosts.ssh_hosts import SshHosts
from support.training.gated_data import gated_settings
from support.training.random_faults import BATCH, CLUSTER, FILES, ROWS_PER_FILE, write_slow_files

KINDS = ("kill", "kill", "runner", "stop", "cut")
NAMES = ("one", "other")
ROLES = ("coordinator", "pserver", "trainer")
ROWS = FILES * ROWS_PER_FILE
"""Of an epoch."""


def job_on_hosts(hosts: SshHosts, directory: Path, *, strategy: str, seed: int, epochs: int) -> dict[str, Any]:
    """A job that lasts while things happen to it, and forgives as many deaths as there will be."""
    addresses = {"one": hosts.network.one.address, "other": hosts.network.other.address}
    cluster = {
        **{key: value for key, value in CLUSTER.items() if key not in ("pservers", "trainers")},
        "hosts": [{"host": name, "address": addresses[name], "python": sys.executable} for name in NAMES],
        "root": str(hosts.private / "jobs"),
        "restarts": 100,
        "start_timeout": 60,
    }
    settings = settings_for(
        {"train": "", "test": ""},
        directory,
        "random",
        strategy=strategy,
        train={"batch_size": BATCH, "epochs": epochs},
        checkpoint={"every_steps": 30, "keep": 2},
    )
    del settings["output"]  # below the directory of jobs, which is another one on each host
    settings["cluster"] = {**cluster, "heartbeat": 0.2, "threads": 1}
    return gated_settings(settings, write_slow_files(directory / "data", nap=0.1, seed=seed))


class RandomHostFaults:
    """Hurts a run as long as its launcher lives, and at most so often."""

    def __init__(self, hosts: SshHosts, launcher: subprocess.Popen[str], *, seed: int, most: int) -> None:
        self._hosts, self._launcher, self._most = hosts, launcher, most
        self._random = random.Random(seed)
        self._later: list[tuple[float, Callable[[], object]]] = []
        self._is_cut = False
        self.done: Counter[str] = Counter()
        """By kind and role, such as "kill pserver"."""

    def run(self) -> None:
        """Until there were enough faults, or the run has ended; then everything is mended."""
        kinds = {"kill": self._kill, "runner": self._kill_runner, "stop": self._stop, "cut": self._cut}
        try:
            while self.done.total() < self._most and self._pause(self._random.uniform(0.3, 2.0)):
                kinds[self._random.choice(KINDS)](self._random.choice(NAMES))
        finally:
            for _, action in sorted(self._later, key=lambda due: due[0]):
                action()

    def _pause(self, seconds: float) -> bool:
        """Do what is due meanwhile; whether the launcher is still there."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for due in [due for due in self._later if due[0] <= time.monotonic()]:
                self._later.remove(due)
                due[1]()
            if self._launcher.poll() is not None:
                return False
            time.sleep(0.02)
        return True

    def _kill(self, host: str) -> None:
        role = self._random.choice(ROLES)
        if _signalled(self._hosts.pid(host, role), signal.SIGKILL):
            self.done[f"kill {role}"] += 1

    def _kill_runner(self, host: str) -> None:
        if _signalled(self._hosts.runner(host), signal.SIGKILL):
            self.done["kill runner"] += 1

    def _stop(self, host: str) -> None:
        role = self._random.choice(ROLES)
        pid = self._hosts.pid(host, role)
        if _signalled(pid, signal.SIGSTOP):
            self._in(self._random.choice([0.5, 2.5, 7.0]), lambda: _signalled(pid, signal.SIGCONT))
            self.done[f"stop {role}"] += 1

    def _cut(self, _host: str) -> None:
        if not self._is_cut:
            self._is_cut = True
            self._hosts.network.cut()
            self._in(self._random.choice([0.5, 3.0, 12.0]), self._mend)
            self.done["cut"] += 1

    def _mend(self) -> None:
        self._is_cut = False
        self._hosts.network.mend()

    def _in(self, seconds: float, action: Callable[[], object]) -> None:
        self._later.append((time.monotonic() + seconds, action))


def _signalled(pid: int, number: signal.Signals) -> bool:
    """Whether there was such a process."""
    if not pid:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
