"""`clickline up` as a process: started in a directory of its own, waited for, and looked after for what it leaves."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.eventually import eventually
from support.processes import ENVIRONMENT


class UpProcess:
    """One `clickline up`. What it prints goes to files; its temporary files to a directory that can be looked at."""

    def __init__(self, directory: Path, *arguments: str | Path, state: str = "runs") -> None:
        self.directory, self.state = directory, directory / state
        self.temporary = directory / "tmp"
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.out, self.err = directory / "out.txt", directory / "err.txt"
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "clickline", "up", *map(str, arguments)],
                cwd=directory,
                env={**ENVIRONMENT, "TMPDIR": str(self.temporary)},
                stdout=out,
                stderr=err,
            )

    def told(self) -> dict[str, Any]:
        """What it tells; nothing if there is only what another has left."""
        with suppress(OSError, ValueError):
            found = json.loads((self.state / "suite.json").read_text())
            return found if found["pid"] == self.process.pid else {}
        return {}

    def await_phase(self, phase: str) -> dict[str, Any]:
        self.await_this(lambda: self.told().get("phase") == phase, what=f"up {phase}")
        return self.told()

    def await_page(self) -> None:
        """Until all is shown."""
        self.await_this(lambda: "stops it" in self.out.read_text(), what="the page that up prints")

    def await_this(self, condition: Any, *, what: str) -> None:
        eventually(lambda: condition() or self.process.poll() is not None, what=what)
        assert condition(), f"{what}: {self.out.read_text()}\n{self.err.read_text()}"

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def going_up(directory: Path, *arguments: str | Path) -> Iterator[UpProcess]:
    """Started, and gone afterwards whatever happens."""
    found = UpProcess(directory, *arguments)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                found.process.wait(30)
            found.process.kill()
            found.process.wait()


def run_beside(directory: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A verb, called where `up` was."""
    return subprocess.run(
        [sys.executable, "-m", "clickline", *map(str, arguments)],
        cwd=directory,
        env={**ENVIRONMENT, "TMPDIR": str(directory / "tmp")},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def lives(pid: int | None) -> bool:
    """Dead is also who waits to be reaped by somebody."""
    try:
        return pid is not None and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def assert_nothing_left(directory: Path, told: Mapping[str, Any], *, state: str = "runs") -> None:
    """No process, no port, no sockets, no temporary file, no secret."""
    for one in told["components"]:
        assert not lives(one["pid"]), f"{one['name']} lives"
        if one["address"]:
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", urlsplit(one["address"]).port or 0)) != 0, one["name"]
    libraries = ("torchinductor", ".ses")  # PyTorch and onnxruntime keep something of their own, once for each user
    assert [path.name for path in (directory / "tmp").iterdir() if not path.name.startswith(libraries)] == []
    left = {path.name for path in (directory / state).iterdir()}
    assert not left & {"suite.json", "suite.token", ".suite.json.new"}
