"""One of two workers is killed, or stands still: nobody is refused, and only what it was answering is lost."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from clickline import Client
from support.doubles.serving_doubles import BODY, PROBABILITY
from support.eventually import eventually
from support.serving.stub_servers import Running, running
from support.suites.suite_processes import lives

pytestmark = pytest.mark.heavy
REQUEST = b"POST /predict HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
ROW = {"C1": "68fd1e64", "C2": "80e26c9b", "I1": 3}
CLIENTS = 4
KILLS = 4


@dataclass
class Attempt:
    began: float
    ended: float
    outcome: str


class Asking(threading.Thread):
    """Asks again and again until told to end: over a new connection for each request, or as the Python client does."""

    def __init__(self, url: str, *, retries: int | None) -> None:
        super().__init__(daemon=True)
        self._url, self._retries, self._over = url, retries, threading.Event()
        self.attempts: list[Attempt] = []

    def run(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            try:
                outcome = self._with_client() if self._retries is not None else self._afresh()
            except Exception as error:
                outcome = type(error).__name__
            self.attempts.append(Attempt(began, time.monotonic(), outcome))

    def _with_client(self) -> str:
        with Client(self._url, timeout=20.0, retries=self._retries or 0) as client:
            return "answered" if client.predict(ROW).probabilities == [PROBABILITY] else "wrong"

    def _afresh(self) -> str:
        where = urlsplit(self._url)
        answer = b""
        with socket.create_connection((where.hostname, where.port), 20.0) as connection:
            connection.sendall(REQUEST)
            while data := connection.recv(65536):
                answer += data
        if answer.startswith(b"HTTP/1.1 200 ") and str(PROBABILITY).encode() in answer:
            return "answered"
        return answer.split(b"\r\n")[0].decode() or "no answer"

    def end(self) -> None:
        self._over.set()
        self.join(60)


def asked(url: str, *, retries: int | None) -> list[Asking]:
    threads = [Asking(url, retries=retries) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    return threads


def failed(threads: list[Asking]) -> list[Attempt]:
    return [each for thread in threads for each in thread.attempts if each.outcome != "answered"]


def answers(threads: list[Asking]) -> int:
    return sum(each.outcome == "answered" for thread in threads for each in list(thread.attempts))


def both_serve(server: Running) -> bool:
    return len([pid for pid in server.workers() if lives(pid)]) == 2 and server.metric("clickline_workers") == 2


def test_with_one_of_two_workers_killed_only_what_it_was_answering_is_lost(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    deaths: list[tuple[float, float]] = []
    with running(tmp_path) as server:
        alone, patient = asked(server.url, retries=None), asked(server.url, retries=2)
        try:
            for kill in range(KILLS):
                eventually(lambda: both_serve(server), what="two workers")
                before = answers(alone)
                eventually(lambda: answers(alone) > before + 50, what="answers")  # noqa: B023
                victim = server.workers()[kill % 2]
                killed = time.monotonic()
                os.kill(victim, signal.SIGKILL)
                eventually(lambda: not lives(victim), what="its end")  # noqa: B023
                deaths.append((killed, time.monotonic()))
            before = answers(alone)
            eventually(lambda: both_serve(server) and answers(alone) > before + 50, what="answers after the last kill")
        finally:
            for thread in [*alone, *patient]:
                thread.end()
    lost = failed(alone)
    kinds = Counter(each.outcome for each in lost)
    record_property(
        "serving counts",
        f"{KILLS} workers of a pair killed: {answers(alone):,} answers over new connections, {len(lost)} lost with the "
        f"worker that was answering, {kinds['ConnectionRefusedError']} refused; {answers(patient):,} answers by the "
        f"client that asks again, {len(failed(patient))} failed",
    )
    assert failed(patient) == []
    assert kinds.keys() <= {"ConnectionResetError", "no answer"}, kinds
    assert len(lost) <= KILLS * CLIENTS
    others = [each for each in lost if not any(each.began <= end and killed <= each.ended for killed, end in deaths)]
    assert others == [], "lost, though no worker died while it was asked"


def test_a_worker_that_stands_still_is_started_again_and_the_other_answers_meanwhile(tmp_path: Path) -> None:
    with running(tmp_path, stall_after=3.0) as server:
        eventually(lambda: both_serve(server), what="two workers")
        stopped, other = server.workers()
        os.kill(stopped, signal.SIGSTOP)
        alone = asked(server.url, retries=None)
        try:
            eventually(lambda: not lives(stopped), what="the end of the worker that stands still")
            eventually(lambda: both_serve(server), what="two workers again")
            before = answers(alone)
            eventually(lambda: answers(alone) > before + 50, what="answers")
        finally:
            for thread in alone:
                thread.end()
        assert other in server.workers()
        assert failed(alone) == []
