"""A predictor with workers as processes that a test kills, and clients that never stop asking it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np

from clickline import Client
from cube_processes import NAME, TOKEN, CubeProcesses, eventually
from killing import Killing
from model_versions import ModelVersions

MODEL = "ctr"
_FIRST_VERSION = re.compile(rf"serve\.\d+ model {MODEL}: version \d+$", re.MULTILINE)
_UNTIL_NEXT = (0.5, 2.5)


class PredictorProcess:
    """`clickline serve` with rows from a cube."""

    def __init__(self, directory: Path, cube: CubeProcesses, *, workers: int, **env: str) -> None:
        self.log, self._ready = directory / "predictor.log", directory / "predictor.json"
        self.workers = workers
        addresses = ";".join(",".join(replicas) for replicas in cube.servers)
        arguments = [str(cube.store.path), "--cube", addresses, "--cube-name", NAME, "--name", MODEL]
        arguments += ["--listen", "127.0.0.1:0", "--workers", str(workers), "--ready-file", str(self._ready)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "clickline", "serve", *arguments],
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


class Asker(threading.Thread):
    """Asks for a few rows again and again, and holds each answer against the version that it names."""

    def __init__(self, url: str, versions: ModelVersions, *, seed: int, pause: float = 0.01) -> None:
        super().__init__(daemon=True)
        self._url, self._versions, self._pause = url, versions, pause
        self._random = np.random.default_rng(seed)
        self._over = threading.Event()
        self.counts: Counter[str] = Counter(answers=0, predictions=0, mixed=0, wrong=0, misnamed=0, failed=0)
        self.seen: Counter[int] = Counter()
        self.slowest = 0.0
        self.trouble: list[str] = []

    def run(self) -> None:
        with Client(self._url, timeout=20.0, retries=20) as client:
            while not self._over.wait(self._pause):
                count = int(self._random.integers(1, 9))
                rows = self._random.integers(0, len(self._versions.instances), count)
                began = time.monotonic()
                try:
                    found = client.predict([self._versions.instances[row] for row in rows])
                except Exception as error:  # whatever it is, it is a request that failed
                    self.counts["failed"] += 1
                    self.trouble.append(f"{time.strftime('%H:%M:%S')} {error!r}")
                    continue
                self.noted(time.monotonic() - began)
                self._judge(rows, found.version, np.array(found.probabilities, np.float64))

    def noted(self, seconds: float) -> None:
        """How long an answer took."""
        self.slowest = max(self.slowest, seconds)

    def _judge(self, rows: np.ndarray, version: int, said: np.ndarray) -> None:
        self.counts.update(answers=1, predictions=len(rows))
        self.seen[version] += 1
        if self._versions.explains(version, rows, said):
            return
        others = range(1, self._versions.last + 1)
        kind = "misnamed" if any(self._versions.explains(each, rows, said) for each in others) else "mixed"
        self.counts.update({kind: 1, "wrong": 1})
        off = float(np.abs(self._versions.expected(version)[rows] - said).max())
        self.trouble.append(f"{time.strftime('%H:%M:%S')} version {version}: {kind}, off by {off:.3g}")

    def end(self) -> None:
        self._over.set()
        self.join()
