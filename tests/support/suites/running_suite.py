"""A suite that runs in a test: looked after by a thread, and asked from outside how its parts are."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx

from clickline.cube.server.cube_commands import CubeCommands
from clickline.errors import PeerError
from clickline.launch.suite import Suite
from clickline.launch.suite_state import claimed
from clickline.processes.process_events import ProcessEvent
from support.eventually import eventually
from support.serving.prediction_clients import MODEL
from support.suites.suite_processes import lives

STALL_AFTER = 3.0
"""Seconds without a heartbeat: short for a test, long for a loop on a busy machine."""
_FIRST_VERSION = re.compile(rf"serve\.\d+ model {MODEL}: version \d+$", re.MULTILINE)
_PATHS = {"fileserver": "/health", "transfer": "/dict/info", "agent": "/agent/status"}


class RunningSuite(threading.Thread):
    """A suite, looked after by a thread that lives as long as it. A context manager."""

    def __init__(self, state: Path, *, stall_after: float = STALL_AFTER, workers: int = 2, **options: Any) -> None:
        super().__init__(daemon=True)
        self.state, self.stall_after, self.workers = state, stall_after, workers
        self.events: list[str] = []
        self.error: BaseException | None = None
        self._options = {"port": 0, "wait": 0.3, **options}
        self._serves, self._over = threading.Event(), threading.Event()
        self._http = httpx.Client(trust_env=False, timeout=1.0)

    def run(self) -> None:
        try:
            with (
                claimed(self.state),
                Suite(
                    self.state,
                    stall_after=self.stall_after,
                    workers=self.workers,
                    on_event=self._event,
                    **self._options,
                ) as suite,
            ):
                self.suite = suite
                suite.until(lambda: bool(suite.http), what="a suite that serves")
                suite.tell()
                self._serves.set()
                while not self._over.wait(0.02):
                    suite.poll()
        except BaseException as error:
            self.error = error

    def _event(self, event: ProcessEvent) -> None:
        self.events.append(f"{time.strftime('%H:%M:%S')} {event}")

    def __enter__(self) -> Self:
        self.start()
        eventually(lambda: self._serves.is_set() or not self.is_alive(), what="a suite that serves")
        self.check()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(120)
        self._http.close()

    def check(self) -> None:
        """Raises what has ended the suite, if something has."""
        if self.error is not None:
            raise self.error

    @property
    def url(self) -> str:
        return self.suite.http

    def components(self) -> list[dict[str, Any]]:
        """Processes that the suite looks after, and the predictor's workers."""
        found = [dict(one) for one in self.suite.supervisor.states()]
        (predictor,) = [one for one in found if one["role"] == "predictor"]
        workers = _children(predictor["pid"]) if self.workers > 1 else []
        return found + [
            {"role": "worker", "rank": rank, "name": f"worker.{rank}", "pid": pid} for rank, pid in enumerate(workers)
        ]

    def pid(self, name: str) -> int | None:
        return next((one["pid"] for one in self.components() if one["name"] == name), None)

    def begun(self) -> int:
        """Workers, also of the past, that have got as far as to have a version."""
        log = self.suite.directory / "logs" / "predictor.0.log"
        return len(_FIRST_VERSION.findall(log.read_text(encoding="utf-8")))

    def answers(self, role: str, rank: int) -> bool:
        """Whether a component does, asked in its own way."""
        if role == "cube":
            return self.switch_number(rank) > 0
        if role in ("predictor", "worker"):
            return len(_children(self.pid("predictor.0"))) == self.workers
        with suppress(httpx.HTTPError):
            address = self.suite.process_files.address(role, rank)
            return bool(address) and self._http.get(address + _PATHS[role]).status_code == 200
        return False

    def switch_number(self, rank: int) -> int:
        """Of the version that a cube server serves; 0 if it serves none or does not answer."""
        address = self.suite.cube.members.address(rank)
        try:
            with CubeCommands(
                address, name=MODEL, token=self.suite.token.encode(), patience=0.0, deadline=1.0
            ) as server:
                return int(server.call("status")["number"])
        except PeerError:
            return 0


def _children(pid: int | None) -> list[int]:
    with suppress(OSError, ValueError):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        return [int(one) for one in found if lives(int(one))]
    return []
