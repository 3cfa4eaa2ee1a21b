"""Workers as processes: they share a port, are started again when they die, and end without losing a request."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from clickline.errors import PeerError
from clickline.processes.process import Spec
from clickline.processes.process_identity import alive
from clickline.processes.restart_policy import RestartPolicy
from clickline.processes.supervisor import Supervisor
from support.doubles.serving_doubles import BODY, PROBABILITY
from support.eventually import eventually
from support.processes import run
from support.serving.stub_servers import LONG, running

pytestmark = pytest.mark.heavy


@dataclass
class Load:
    """Clients that ask until they are told to stop."""

    url: str
    answered: int = 0
    refused: int = 0
    lost: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Load:
        self._threads = [threading.Thread(target=self._ask) for _ in range(6)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(LONG)

    def _ask(self) -> None:
        with httpx.Client(base_url=self.url, trust_env=False, timeout=20) as client:
            while not self._stop.is_set():
                try:
                    answer = client.post("/predict", content=BODY)
                except httpx.ConnectError:
                    with self._lock:
                        self.refused += 1
                    time.sleep(0.01)
                except httpx.HTTPError as error:
                    with self._lock:
                        self.lost.append(repr(error))
                else:
                    assert answer.json()["predictions"] == [PROBABILITY]
                    with self._lock:
                        self.answered += 1


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_that_was_asked_is_lost_when_it_is_told_to_stop(tmp_path: Path, workers: int) -> None:
    with running(tmp_path, workers=workers) as server, Load(server.url) as load:
        eventually(lambda: load.answered > 50, what="an answer")
        pids = server.workers()
        assert len(pids) == (workers if workers > 1 else 0)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
        eventually(lambda: load.refused > 0, what="being refused")
    assert load.lost == []
    assert not any(alive(pid) for pid in pids)
    assert list(server.temporary.iterdir()) == []


def test_connections_are_shared_among_workers(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        clients = [httpx.Client(base_url=server.url, trust_env=False, timeout=20) for _ in range(8)]
        try:
            pids = [client.get("/status").json()["worker"]["pid"] for client in clients]
            shares = {pid: pids.count(pid) for pid in server.workers()}
            assert min(shares.values()) >= 2, shares
            assert server.metric("clickline_connections") >= 8
            assert server.metric("clickline_workers") == 2
        finally:
            for client in clients:
                client.close()


def test_a_killed_worker_comes_back_and_the_counters_go_on(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        with Load(server.url) as load:
            eventually(lambda: load.answered > 50, what="an answer")
            first, second = server.workers()
            os.kill(first, signal.SIGKILL)
            eventually(lambda: len(server.workers()) == 2 and first not in server.workers(), what="coming back")
            before = load.answered
            eventually(lambda: load.answered > before + 100, what="an answer")
            assert second in server.workers()
        counted = server.metric("clickline_requests_total")
        # Each client can lose one request with the worker; all that were answered are counted.
        assert len(load.lost) <= 6
        assert load.answered <= counted <= load.answered + len(load.lost) + 6
        assert server.metric("clickline_rows_total") >= load.answered
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
    print(f"answered {load.answered}, lost with the killed worker {len(load.lost)}, counted {counted:.0f}")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, workers: int) -> None:
    with running(tmp_path, workers=workers) as server:
        pids = server.workers()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 0
    assert not any(alive(pid) for pid in pids)
    assert list(server.temporary.iterdir()) == []


def test_workers_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        pids = server.workers()
        server.process.kill()
        server.process.wait(20)
        eventually(lambda: not any(alive(pid) for pid in pids), what="the end of the workers")


def test_what_cannot_work_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLICKLINE_TOKEN", "CLICKLINE_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    result = run("serve", tmp_path, "--listen", "0.0.0.0:0")
    assert (result.returncode, "CLICKLINE_TOKEN" in result.stderr) == (3, True), result.stderr
    result = run("serve")
    assert (result.returncode, "--config" in result.stderr) == (3, True), result.stderr
    result = run("serve", tmp_path, "--listen", "nowhere")
    assert (result.returncode, "HOST:PORT" in result.stderr) == (3, True), result.stderr
    result = run("serve", tmp_path, "--name", "")
    assert result.returncode == 3, result.stderr


def test_deaths_are_forgotten_of_a_process_that_has_run_for_long_enough(tmp_path: Path) -> None:
    for forgive, deaths in ((0.0, 3), (LONG, 2)):
        policy = RestartPolicy(restarts=1, well_after=forgive)
        spec = Spec("short", 0, [sys.executable, "-c", "raise SystemExit(1)"], {}, tmp_path / "log", policy=policy)
        with Supervisor([spec], restarts=1, on_event=lambda _: None) as supervisor:
            with pytest.raises(PeerError) if forgive else nullcontext():
                eventually(lambda s=supervisor: s.poll() or len(s.endings) == 3, what="a death")
            assert len(supervisor.endings) == deaths
