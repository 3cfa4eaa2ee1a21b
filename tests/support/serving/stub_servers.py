"""`clickline serve` of the stub predictor in programs/ as a process that a test starts, asks and kills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from support.eventually import eventually
from support.programs import PROGRAMS

SCRIPT = PROGRAMS / "stub_predictor.py"
LONG = 60.0


@dataclass
class Running:
    process: subprocess.Popen[bytes]
    url: str
    temporary: Path

    def metric(self, name: str) -> float:
        lines = httpx.get(f"{self.url}/metrics", trust_env=False, timeout=20).text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.split(" ")[0].split("{")[0] == name)

    def workers(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        return [int(child) for child in children.split()]


@contextmanager
def running(directory: Path, *, workers: int = 2, **keys: Any) -> Iterator[Running]:
    config = {"models": {"ctr": {"store": "none"}}, "grpc": False, "listen": "127.0.0.1:0", "workers": workers} | keys
    (directory / "config.json").write_text(json.dumps(config))
    temporary, ready = directory / "tmp", directory / "ready.json"
    temporary.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CLICKLINE_")}
    path = os.pathsep.join(sys.path)
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "serve", directory / "config.json", ready],
        env=clean | {"TMPDIR": str(temporary), "PYTHONPATH": path},
        start_new_session=True,
    )
    try:
        eventually(lambda: ready.exists() or process.poll() is not None, what="being ready")
        told = json.loads(ready.read_text())
        assert told["pid"] == process.pid
        yield Running(process, told["http"], temporary)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(20)
