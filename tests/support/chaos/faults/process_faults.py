"""Processes that are killed, and processes that stand still for a while."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from support.chaos.faults.fault import Fault, NotNow
from support.chaos.workload.linked_suite import Stopped, send
from support.chaos.workload.publications import kill_publisher

_STOPS = ((0.2, 1.0), (1.0, 3.0), (3.0, 6.0))
"""Seconds: most stops are short, some are longer than a deadline or two."""


class Stop(Fault):
    """SIGSTOP, a while, SIGCONT. Whoever looks after the process may lose patience before and start another."""

    def stopped(self, pid: int | None, times: Sequence[tuple[float, float]]) -> str:
        try:
            process = Stopped(pid or 0) if pid else None
        except ProcessLookupError:
            process = None
        if process is None:
            raise NotNow(f"{self.target} does not run")
        try:
            self.hold(*self.random.choice(times))
        finally:
            outcome = process.wake()
        return outcome


class KillComponent(Fault):
    """SIGKILL to a process of the suite; its supervisor starts another."""

    name = "kill"

    def inject(self) -> str:
        pid = self.workload.suite.pid(self.target)
        if pid is None or not send(pid, signal.SIGKILL):
            raise NotNow(f"{self.target} does not run")
        return "killed"


class StopComponent(Stop):
    """A process of the suite stands still."""

    name = "stop"

    def inject(self) -> str:
        return self.stopped(self.workload.suite.pid(self.target), _STOPS)


class KillWorker(Fault):
    """SIGKILL to one of the predictor's workers. Only what was under way on its connections may be lost."""

    name = "kill worker"

    def inject(self) -> str:
        suite = self.workload.suite
        pids = suite.workers()
        if not pids:
            raise NotNow("no worker runs")
        begun, began = suite.workers_begun(), time.monotonic()
        with self.workload.presence.worker_hit("a worker was killed"):
            send(self.random.choice(pids), signal.SIGKILL)
        while suite.workers_begun() <= begun and time.monotonic() < began + 60 and not self.over.wait(0.05):
            pass
        return "killed"


class StopWorker(Stop):
    """SIGSTOP to a worker: its clients wait, until it goes on or is replaced."""

    name = "stop worker"

    def inject(self) -> str:
        suite = self.workload.suite
        pids = suite.workers()
        if not pids:
            raise NotNow("no worker runs")
        with self.workload.presence.worker_hit("a worker stood still"):
            return self.stopped(self.random.choice(pids), _STOPS)


class KillTraining(Fault):
    """SIGKILL to a process of the training that runs."""

    name = "kill in training"

    def inject(self) -> str:
        pid = self.workload.training_pid(self.target)
        if not send(pid, signal.SIGKILL):
            raise NotNow(f"{self.target} has just ended")
        return "killed"


class StopTraining(Stop):
    """SIGSTOP and SIGCONT to a process of the training; some stops are longer than the others' patience."""

    name = "stop in training"

    def inject(self) -> str:
        return self.stopped(self.workload.training_pid(self.target), (*_STOPS, (9.0, 11.0)))


class KillPublisher(Fault):
    """SIGKILL to `clickline publish` while it publishes what was trained."""

    name = "kill publisher"

    def inject(self) -> str:
        publications = self.workload.publications
        end = time.monotonic() + 20
        while publications.publisher is None:
            if time.monotonic() > end or self.over.wait(0.05):
                raise NotNow("nothing is being published")
        self.hold(0.2, 6.0)
        if not kill_publisher(publications):
            raise NotNow("it had already published")
        return "killed"
