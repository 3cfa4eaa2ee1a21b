"""The tables that Cube, Paddle Serving and PaddleRec published, in the same shape, with this machine's figures.

cube      one server, 1 M keys with 40-byte values: requests and keys per second, CPU, latencies; at a quarter, half and
          all of what one client can ask for (Serving v0.9, core/cube/doc/performance.md)
client    latencies of a client of 10 shards at 100 requests per second, batches of 100, 500 and 1000 (same page)
serving   Criteo CTR with a cube, 1 to 16 clients: latency and requests per second (Serving v0.9, criteo_ctr_with_cube)
training  CTR-DNN, rows per second, sync and async, alone and with more trainers (PaddleRec, models/rank/readme.md)

    published_tables.py serve FILE SHARDS                        servers of one table, until standard input ends
    published_tables.py get ADDRESSES PID BATCH RATE SECONDS     asks them; RATE 0 asks as fast as it can

Theirs were measured on several large hosts, so what can be compared is the shape, not the figures: clients, servers and
trainers share the cores that the first line names. Results: benchmarks/results/published-tables.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import serve_parts as parts
from clickline import _native
from clusters import clustered, train
from cube_network import JOB, KEYS, TABLE, TOKEN, keys_of, write
from datasets import synthetic
from peers import run_own, scratch
from rounds import Report, console, machine
from sections import guarded, parser_for, run_sections
from serve import with_cube

VALUE = 40
SHARDS = 10
PERCENTILES = (50, 80, 90, 99, 99.9, 99.99)
CLIENTS = (1, 2, 4, 8, 16)
TRAINERS = (2, 4)


def main() -> None:
    parser = parser_for(__doc__, example="python benchmarks/published_tables.py --only cube,client")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each row of a table (default %(default)s)")
    parser.add_argument("--rows", type=int, default=200_000, help="synthetic rows to train on (default %(default)s)")
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()), highlight=False)
    run_sections("published-tables", {"cube": cube, "client": client, "serving": serving, "training": training}, parser)


def cube(report: Report, given: argparse.Namespace) -> None:
    shown = _Shown(
        report, "cube", ("case", "qps", "keys/s", "cpu %", "avg", "50%", "90%", "99%", "99.9%", "99.99% (us)")
    )
    with _servers(shards=1) as servers:
        for batch in (1, 100):
            most = servers.ask(batch, 0.0, given.seconds)
            paced = {share: servers.ask(batch, share * most["qps"], given.seconds) for share in (0.25, 0.5)}
            for share, facts in {**paced, 1.0: most}.items():
                shown.row(
                    f"{batch} key{'s' * (batch > 1)}, {share:.0%}",
                    [facts[name] for name in ("qps", "keys", "cpu", "avg", "50", "90", "99", "99.9", "99.99")],
                )
    shown.print()


def client(report: Report, given: argparse.Namespace) -> None:
    shown = _Shown(report, "client", ("batch", "keys/s", "avg", "80%", "99%", "99.9%", "99.99% (us)"))
    with _servers(shards=SHARDS) as servers:
        for batch in (100, 500, 1000):
            facts = servers.ask(batch, 100.0, given.seconds)
            shown.row(str(batch), [facts[name] for name in ("keys", "avg", "80", "99", "99.9", "99.99")])
    shown.print()


def serving(report: Report, given: argparse.Namespace) -> None:
    """Requests of 16 rows. A client asks again when it has its answer: latency is clients over requests per second."""
    shown = _Shown(report, "serving", ("clients", "avg latency ms", "qps"))
    with scratch() as directory, ExitStack() as stack:
        rows = synthetic(given.rows)
        store = parts.published(rows, directory)
        form = parts.own_json(parts.raw_rows(rows))
        url = stack.enter_context(with_cube(directory, store, form, stack))
        for clients in CLIENTS:
            seen = parts.wrk(url, form, directory, clients=clients, seconds=given.seconds)
            shown.row(str(clients), [clients / seen.requests_per_second * 1e3, seen.requests_per_second])
    shown.print()


def training(report: Report, given: argparse.Namespace) -> None:
    text = synthetic(given.rows).train
    shown = _Shown(report, "training", ("mode", "single", *(f"{n} servers + {n} trainers" for n in TRAINERS)))
    alone = train(clustered(text, strategy="single", batch=1000, pservers=0, trainers=1, epochs=2)).rows_per_second
    for strategy in ("sync", "async"):
        many = [
            train(clustered(text, strategy=strategy, batch=1000, pservers=n, trainers=n, epochs=2)).rows_per_second
            for n in TRAINERS
        ]
        shown.row(strategy, [alone, *many])
    shown.print()


class _Shown:
    """One table: printed, and kept in the report."""

    def __init__(self, report: Report, name: str, columns: Sequence[str]) -> None:
        self._report, self._name, self._columns = report, name, columns
        self._table = Table(*columns, title=name)

    def row(self, case: str, values: Sequence[float]) -> None:
        for column, value in zip(self._columns[1:], values, strict=True):
            self._report.figure(f"{self._name}, {case}, {column}", round(value, 4), unit="")
        self._table.add_row(case, *(f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values))

    def print(self) -> None:
        console.print(self._table)


@dataclass(frozen=True)
class _Servers:
    """Cube servers in one process."""

    addresses: str
    pid: str

    def ask(self, batch: int, rate: float, seconds: float) -> dict[str, float]:
        """What a client process saw; `cpu` is that of the servers meanwhile, in percent of one core."""
        facts: dict[str, float] = run_own("published_tables", "get", self.addresses, self.pid, batch, rate, seconds)
        return facts


@contextmanager
def _servers(*, shards: int) -> Iterator[_Servers]:
    with scratch() as directory:
        write(directory / "rows.dict", value=VALUE)
        command = [sys.executable, __file__, "serve", str(directory / "rows.dict"), str(shards)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield _Servers(process.stdout.readline().strip() if process.stdout else "", str(process.pid))
        finally:
            process.communicate()


def serve(file: str, shards: str) -> None:
    servers = []
    for number in range(int(shards)):
        server = _native.CubeServer("tcp:127.0.0.1:0", name=f"cube.{number}", job=JOB, token=TOKEN)
        server.load(1, {TABLE: _native.Layers([_native.Dictionary(file)])})
        server.switch(1, 1)
        servers.append(server)
    print(",".join(server.address for server in servers), flush=True)
    sys.stdin.read()
    for server in servers:
        server.close()


def get(addresses: str, pid: str, batch: str, rate: str, seconds: str) -> None:
    asked = _native.CubeClient([[one] for one in addresses.split(",")], name="bench", job=JOB, token=TOKEN)
    size, pause, draw = int(batch), 1 / float(rate) if float(rate) else 0.0, np.random.default_rng(1)
    batches = [keys_of(draw.integers(0, KEYS, size)) for _ in range(max(50, 20_000 // size))]
    for keys in batches[:20]:
        got = asked.get(TABLE, keys)
        if not np.array_equal(got.values[:, :8].copy().view(np.uint64)[:, 0], keys):
            sys.exit("the cube gave another value than was put")
    times: list[float] = []
    cpu = _cpu_seconds(pid)
    began = now = time.perf_counter()
    while now - began < float(seconds):
        due = began + len(times) * pause
        if due > now:
            time.sleep(due - now)
        sent = time.perf_counter()
        asked.get(TABLE, batches[len(times) % len(batches)])
        now = time.perf_counter()
        times.append(now - sent)
    cpu = 100 * (_cpu_seconds(pid) - cpu) / (now - began)
    taken = np.asarray(times) * 1e6
    facts: dict[str, Any] = {f"{p:g}": v for p, v in zip(PERCENTILES, np.percentile(taken, PERCENTILES), strict=True)}
    qps = len(times) / (now - began)
    print(json.dumps({**facts, "avg": float(taken.mean()), "qps": qps, "keys": qps * size, "cpu": cpu}))


def _cpu_seconds(pid: str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {"serve": serve, "get": get}
    if len(sys.argv) > 1 and sys.argv[1] in commands:
        commands[sys.argv[1]](*sys.argv[2:])
    else:
        guarded(main)
