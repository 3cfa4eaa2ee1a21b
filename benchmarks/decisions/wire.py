"""Decision 15: rows of a parameter server by our wire and by gRPC. `make decision-wire` runs it.

One server process with one table (a million rows of dimension 16), one client, over a Unix socket, pulls of 100, 1,000
and 10,000 keys. Both servers call the same native table; what differs is how keys and rows get there.

    wire          native server and client: frames, checksums, requests executed once
    gRPC          grpcio: a method of bytes in, bytes out, without protobuf; Python calls the table
    gRPC, echo    the same with rows that lie ready: what gRPC takes without any table

    wire.py serve wire|grpc ADDRESS       a server, until its standard input ends
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import grpc
import numpy as np
from numpy.typing import NDArray

import server
from clickline import _native
from decision_table import DecisionTable, Options, options
from peers import scratch

SIZES = (100, 1_000, 10_000)
PULL, ECHO = "/bench.Table/Pull", "/bench.Table/Echo"
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
Pull = Callable[[_native.Plan], None]


def plans(size: int) -> list[_native.Plan]:
    """Batches of keys that the table has."""
    keys = np.random.default_rng(1).integers(1, 2**63, server.ROWS, dtype=np.uint64)
    starts = range(0, size * 50, size)
    return [
        _native.Plan(keys[start : start + size], None, columns=1, select=[0], pooling=[0], labels=_zeros(size))
        for start in starts
    ]


def _zeros(size: int) -> NDArray[np.float32]:
    return np.zeros(size, np.float32)


def filled_table() -> _native.Table:
    table = server.table()
    ones = np.ones(server.KEYS, np.float32)
    gradients = np.full((server.KEYS, server.DIM), 0.01, np.float32)
    for plan in server.requests():
        count = len(plan.unique)
        table.push(plan.unique, gradients[:count], ones[:count], ones[:count], plan.slots, tick=1)
    return table


def serve(kind: str, address: str) -> None:
    table = filled_table()
    if kind == "wire":
        wire = _native.WireServer(address, token=server.TOKEN, job=server.JOB, name="pserver.0", handler=lambda *_: b"")
        wire.add_table(0, table)
        wire.open()
        _until_told()
        wire.close()
        return
    answers = {size: np.zeros((size, server.DIM), np.float32).tobytes() for size in SIZES}

    def pull(request: bytes, _: grpc.ServicerContext) -> bytes:
        keys = np.frombuffer(request, np.uint64)
        rows = np.empty((len(keys), server.DIM), np.float32)
        table.pull(keys, rows, training=False, slots=np.zeros(len(keys), np.uint16))
        return rows.tobytes()

    handlers = {
        "Pull": grpc.unary_unary_rpc_method_handler(pull),
        "Echo": grpc.unary_unary_rpc_method_handler(lambda request, _: answers[len(request) // 8]),
    }
    process = grpc.server(ThreadPoolExecutor(2), options=UNLIMITED)
    process.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Table", handlers),))
    process.add_insecure_port(address)
    process.start()
    _until_told()
    process.stop(0)


def _until_told() -> None:
    print("ready", flush=True)
    sys.stdin.read()


@contextmanager
def serving(kind: str, address: str) -> Iterator[None]:
    command = [sys.executable, str(Path(__file__)), "serve", kind, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101  (both were asked for)
        if process.stdout.readline() != b"ready\n":
            raise SystemExit(f"the {kind} server did not start")
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(10)


def by_wire(lane: _native.Lane, plan: _native.Plan) -> None:
    rows = np.empty((len(plan.unique), server.DIM), np.float32)
    lane.pull(0, plan.unique, rows, training=False, slots=plan.slots)


def by_grpc(method: Callable[[bytes], bytes], plan: _native.Plan) -> None:
    rows = np.frombuffer(method(np.asarray(plan.unique).tobytes()), np.float32)
    if rows.size != len(plan.unique) * server.DIM:
        raise ValueError(f"expected {len(plan.unique)} rows, not {rows.size / server.DIM:g}")


def timed(pull: Pull, batches: dict[int, list[_native.Plan]], seconds: float) -> dict[str, float]:
    """Microseconds of the median request, by its number of keys."""
    figures = {}
    for size, requests in batches.items():
        times, end = [], time.perf_counter() + seconds / len(batches)
        while time.perf_counter() < end:
            for request in requests:
                start = time.perf_counter()
                pull(request)
                times.append(time.perf_counter() - start)
        figures[f"{size:,} keys, µs"] = float(np.median(times)) * 1e6
    return figures


def run(given: Options) -> None:
    batches = {size: plans(size) for size in SIZES}
    table = DecisionTable("0015-our-own-wire.md", tuple(f"{size:,} keys, µs" for size in SIZES))
    with scratch() as directory:
        here = os.path.relpath(directory)
        with serving("wire", f"unix:{here}/w"), serving("grpc", f"unix:{here}/g"):
            lane = _native.Lane(
                [f"unix:{here}/w"], token=server.TOKEN, job=server.JOB, name="bench.1", client=1, lane=1
            )
            with grpc.insecure_channel(f"unix:{here}/g", options=UNLIMITED) as channel:
                contenders = {
                    "wire": partial(by_wire, lane),
                    "gRPC": partial(by_grpc, channel.unary_unary(PULL)),
                    "gRPC, echo": partial(by_grpc, channel.unary_unary(ECHO)),
                }
                table.alternate(
                    {name: partial(timed, pull, batches, given.seconds) for name, pull in contenders.items()},
                    rounds=given.rounds,
                )
            lane.close()
    table.finish(write=given.write)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], sys.argv[3])
    else:
        run(options(__doc__))
