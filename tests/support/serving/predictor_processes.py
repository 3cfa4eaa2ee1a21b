"""A predictor with workers as processes that a test kills."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from support.cubes.cube_processes import NAME, TOKEN, CubeProcesses
from support.cubes.killers import Killing
from support.eventually import eventually
from support.serving.prediction_clients import MODEL

_FIRST_VERSION = re.compile(rf"serve\.\d+ model {MODEL}: version \d+$", re.MULTILINE)
_UNTIL_NEXT = (0.5, 2.5)
COMMAND = (sys.executable, "-m", "clickline")


class PredictorProcess:
    """`clickline serve` with rows from a cube."""

    def __init__(
        self, directory: Path, cube: CubeProcesses, *, workers: int, command: Sequence[str] = COMMAND, **env: str
    ) -> None:
        """`command`: what runs `clickline`."""
        self.log, self._ready = directory / "predictor.log", directory / "predictor.json"
        self.workers = workers
        addresses = ";".join(",".join(replicas) for replicas in cube.servers)
        arguments = [str(cube.store.path), "--cube", addresses, "--cube-name", NAME, "--name", MODEL]
        arguments += ["--listen", "127.0.0.1:0", "--workers", str(workers), "--ready-file", str(self._ready)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "serve", *arguments],
                env={**os.environ, "CLICKLINE_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1", **env},
                stdout=log,
                stderr=log,
            )
        eventually(lambda: self._ready.exists() or self.process.poll() is not None, what="the predictor ready")
        assert self._ready.exists(), self.log.read_text()
        self.url: str = json.loads(self._ready.read_text())["http"]

    def pids(self) -> list[int]:
        """Of the workers that live."""
        pid = self.process.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(one) for one in found if self._lives(int(one))]

    def begun(self) -> int:
        """Workers, also of the past, that have got as far as to serve."""
        return len(_FIRST_VERSION.findall(self.log.read_text()))

    def close(self) -> None:
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        self.process.wait()

    @staticmethod
    def _lives(pid: int) -> bool:
        with suppress(OSError):
            return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
        return False


class WorkerKiller(Killing):
    """Kills a worker now and then, when all of them serve; so there is always one to ask."""

    def __init__(self, predictor: PredictorProcess, *, seed: int) -> None:
        super().__init__(seed=seed, until_next=_UNTIL_NEXT, workers_killed=0)
        self._predictor = predictor

    def _kill_one(self) -> None:
        predictor = self._predictor
        begun = predictor.begun()
        os.kill(self._random.choice(predictor.pids()), signal.SIGKILL)
        self.counts["workers_killed"] += 1
        eventually(lambda: predictor.begun() > begun, what="a worker in place of the one that was killed")
        assert len(predictor.pids()) == predictor.workers
