"""Section server: one parameter server on one core, driven over loopback, beside the same table called in-process.

    server.py serve ADDRESS CORE    a server of one table, until its standard input ends

A million rows of dimension 16 under Adagrad, requests of 10,000 keys. The server has one core to itself and its clients
another: three of them, so that it always has something to do. In-process the table has one thread.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from clickline import _native
from peers import scratch
from rounds import Report, alternate

DIM, ROWS, KEYS, SECONDS, CLIENTS = 16, 1_000_000, 10_000, 2.0, 3
TOKEN, JOB = b"a token for this benchmark alone", "bench"


def table() -> _native.Table:
    return _native.Table(dim=DIM, optimizer="adagrad", learning_rate=0.02, seed=1)


def requests() -> list[_native.Plan]:
    """Some batches of distinct keys, in the order of buckets."""
    draw = np.random.default_rng(1)
    keys = draw.integers(1, 2**63, ROWS, dtype=np.uint64)
    plans = []
    for first in range(0, ROWS, KEYS):
        part = keys[first : first + KEYS]
        plans.append(
            _native.Plan(part, None, columns=1, select=[0], pooling=[0], labels=np.zeros(len(part), np.float32))
        )
    return plans


class Client:
    """Pulls and pushes, of a table here or of a server."""

    def __init__(self, near: _native.Table | None, lane: _native.Lane | None) -> None:
        self._near, self._lane = near, lane
        self._out = np.empty((KEYS, DIM), np.float32)
        self._ones = np.ones(KEYS, np.float32)
        self._gradients = np.full((KEYS, DIM), 0.01, np.float32)

    def pull(self, plan: _native.Plan) -> None:
        out = self._out[: len(plan.unique)]
        if self._near is not None:
            self._near.pull(plan.unique, out, training=True, slots=plan.slots)
        elif self._lane is not None:
            self._lane.pull(0, plan.unique, out, training=True, slots=plan.slots)

    def push(self, plan: _native.Plan) -> None:
        n = len(plan.unique)
        columns = (plan.unique, self._gradients[:n], self._ones[:n], self._ones[:n], plan.slots)
        if self._near is not None:
            self._near.push(*columns, tick=1)
        elif self._lane is not None:
            self._lane.push(0, *columns, tick=1)


def rate(clients: list[Client], plans: list[_native.Plan], what: str) -> float:
    """Rows per second of all clients together."""
    end = time.perf_counter() + SECONDS

    def busy(client: Client, first: int) -> int:
        rows, act = 0, getattr(client, what)
        for number in itertools.count(first):
            plan = plans[number % len(plans)]
            act(plan)
            rows += len(plan.unique)
            if time.perf_counter() > end:
                return rows
        return rows

    started = time.perf_counter()
    with ThreadPoolExecutor(len(clients)) as threads:
        every = len(plans) // len(clients)
        rows = sum(threads.map(busy, clients, range(0, every * len(clients), every)))
    return rows / (time.perf_counter() - started)


def run(report: Report, *, rounds: int) -> None:
    plans, near = requests(), [Client(table(), None)]
    cores = sorted(os.sched_getaffinity(0))
    with scratch() as directory:
        address = f"unix:{os.path.relpath(directory)}/s"
        command = [sys.executable, str(Path(__file__)), "serve", address, str(cores[0])]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None  # noqa: S101  (it was asked for)
            process.stdout.readline()
            os.sched_setaffinity(0, {cores[-1]})
            lanes = [
                _native.Lane([address], token=TOKEN, job=JOB, name=f"bench.{n}", client=n, lane=1)
                for n in range(1, CLIENTS + 1)
            ]
            far = [Client(None, lane) for lane in lanes]
            for plan in plans:
                near[0].push(plan)
                far[0].push(plan)
            sides = {"server": far, "in-process": near}
            contenders = {
                f"{side}, rows {what}ed": partial(rate, clients, plans, what)
                for what in ("pull", "push")
                for side, clients in sides.items()
            }
            try:
                for warm in contenders.values():  # pages of sockets and tables are touched for the first time
                    warm()
                report.figures |= alternate(contenders, rounds=rounds, unit="rows/s")
            finally:
                for lane in lanes:
                    lane.close()
                os.sched_setaffinity(0, cores)
                process.communicate(timeout=10)
    for what in ("pulled", "pushed"):
        ratio = report.median(f"server, rows {what}") / report.median(f"in-process, rows {what}")
        report.ratio(f"server/in-process, {what}", ratio, wanted=0.5)


def serve(address: str, core: int) -> None:
    os.sched_setaffinity(0, {core})
    wire = _native.WireServer(address, token=TOKEN, job=JOB, name="pserver.0", handler=lambda *_: b"")
    wire.add_table(0, table())
    wire.open()
    print("ready", flush=True)
    sys.stdin.read()
    wire.close()


if __name__ == "__main__":
    serve(sys.argv[2], int(sys.argv[3]))
