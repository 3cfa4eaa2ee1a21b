"""Section network: one cube server thread against one client process over TCP loopback, beside Redis.

    cube_network.py serve FILE                      a server of one table, until its standard input ends
    cube_network.py get ADDRESS BATCH SECONDS       asks it; prints keys per second and latencies

A million keys with 64-byte values. Redis is asked by redis-py (hiredis) with MGET, and by a bare socket that decodes
nothing, which is the most that any client of it could reach.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clickline import _native
from peers import PeerError, run_own, run_peer, scratch
from rounds import Report, console

KEYS, VALUE, SECONDS = 1_000_000, 64, 2.0
BATCHES = (1, 26, 100, 1000)
TOKEN, JOB, TABLE = b"a token for this benchmark alone", "bench", "rows"
WAYS = ("Clickline", "redis-py", "bare socket")


def keys_of(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Keys as hashing would make them: spread over all 64 bits."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93)
    return np.asarray(mixed ^ (mixed >> np.uint64(32)))


def write(path: Path, count: int = KEYS, value: int = VALUE) -> None:
    """The table: each value repeats its key."""
    keys = keys_of(np.arange(count))
    values = np.repeat(keys[:, None], value // 8, axis=1).view(np.uint8).reshape(count, value)
    _native.write_dictionary(str(path), keys, values, dtype=0, dim=0)


def serve(file: str) -> None:
    server = _native.CubeServer("tcp:127.0.0.1:0", name="cube", job=JOB, token=TOKEN)
    server.load(1, {TABLE: _native.Layers([_native.Dictionary(file, memory=True)])})
    server.switch(1, 1)
    print(server.address, flush=True)
    sys.stdin.read()
    server.close()


def get(address: str, batch: str, seconds: str) -> None:
    client = _native.CubeClient([[address]], name="bench", job=JOB, token=TOKEN)
    size, draw = int(batch), np.random.default_rng(1)
    batches = [keys_of(draw.integers(0, KEYS, size)) for _ in range(max(50, 20_000 // size))]
    for keys in batches[:20]:
        got = client.get(TABLE, keys)
        if not np.array_equal(got.values[:, :8].copy().view(np.uint64)[:, 0], keys):
            sys.exit("the cube gave another value than was put")
    times = []
    began = last = time.perf_counter()
    number = 0
    while last - began < float(seconds):
        client.get(TABLE, batches[number % len(batches)])
        number += 1
        now = time.perf_counter()
        times.append(now - last)
        last = now
    p50, p99 = np.percentile(times, [50, 99]) * 1e6
    print(json.dumps({"keys_per_second": number * size / (last - began), "p50": p50, "p99": p99}))


@contextmanager
def redis() -> Iterator[int]:
    """A Redis of this benchmark's own, with nothing written to disk."""
    program = shutil.which("redis-server")
    if program is None:
        raise PeerError("no redis-server here; install the package redis-server, or leave out section network")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    options = ["--port", str(port), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--daemonize", "no"]
    process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 10
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if time.monotonic() > deadline or process.poll() is not None:
                raise PeerError("redis-server did not start")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def run(report: Report, *, rounds: int) -> None:
    with scratch() as directory, redis() as port:
        write(directory / "rows.dict")
        server = subprocess.Popen(
            [sys.executable, __file__, "serve", str(directory / "rows.dict")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            address = server.stdout.readline().strip() if server.stdout else ""
            filled = run_peer("redis_get", "fill", port, KEYS, VALUE)
            report.figure("Redis, bytes per key", round(filled["bytes_per_key"], 1), unit="bytes")
            for batch in BATCHES:
                _compare(report, address, port, batch, rounds)
        finally:
            server.communicate()
    for batch in BATCHES:
        median = partial(_median, report, batch)
        if batch in (100, 1000):
            report.ratio(f"cube/redis-py, batch {batch}", median("Clickline") / median("redis-py"), wanted=8)
            report.ratio(f"cube/bare socket, batch {batch}", median("Clickline") / median("bare socket"), wanted=4)
        elif batch == 1:
            report.ratio(f"cube/redis-py, batch {batch}", median("Clickline") / median("redis-py"), wanted=2)
        p99 = partial(_median, report, batch, figure="p99")
        report.ratio(f"p99 redis-py/cube, batch {batch}", p99("redis-py") / p99("Clickline"), wanted=1)


def _compare(report: Report, address: str, port: int, batch: int, rounds: int) -> None:
    asked = {
        "Clickline": partial(run_own, "cube_network", "get", address, batch, SECONDS),
        "redis-py": partial(run_peer, "redis_get", "get", port, KEYS, batch, SECONDS),
        "bare socket": partial(run_peer, "redis_get", "bare", port, KEYS, batch, SECONDS, VALUE),
    }
    seen: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way, ask in asked.items():
            facts = ask()
            seen[way].append(facts)
            shown = f"{facts['keys_per_second']:,.0f} keys/s, p50 {facts['p50']:.0f}, p99 {facts['p99']:.0f} us"
            console.print(f"  round {number + 1}/{rounds}  batch {batch}  {way}: {shown}", highlight=False)
    for way, all_ in seen.items():
        for figure, unit in (("keys_per_second", "keys/s"), ("p50", "us"), ("p99", "us")):
            rounds_ = [round(facts[figure], 1) for facts in all_]
            report.figures[_name(way, batch, figure)] = {
                "median": float(np.median(rounds_)),
                "rounds": rounds_,
                "unit": unit,
            }


def _name(way: str, batch: int, figure: str) -> str:
    return f"{way}, batch {batch}" + ("" if figure == "keys_per_second" else f", {figure}")


def _median(report: Report, batch: int, way: str, figure: str = "keys_per_second") -> float:
    return report.median(_name(way, batch, figure))


if __name__ == "__main__":
    (serve if sys.argv[1] == "serve" else get)(*sys.argv[2:])
