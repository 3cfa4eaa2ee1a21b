"""Serving benchmarks, beside peers in the same run. `make bench-serve` runs all of it.

requests  16 rows a request, one worker each, 1 and 8 clients (wrk, loopback). Clickline is sent raw features, hashes
          them and looks their rows up, in a dictionary of its own or in a cube of two shards; LitServe, MLServer and
          FastAPI on uvicorn are handed ready inputs and only call onnxruntime
limit     onnxruntime in-process on ready inputs, and what Clickline's answers take beyond that, at one client

Results: benchmarks/results/serve.json and serve.md (serve-SECTION… if not all sections run).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import serve_parts as parts
from clickline.launch.local_cube import LocalCube
from clickline.versions.donefile import directory_of
from clickline.versions.network import Network
from datasets import synthetic
from peers import PeerError, scratch
from rounds import Report, console
from sections import guarded, parser_for, run_sections

CLIENTS = (1, 8)
JSON_PEERS = ("LitServe", "FastAPI pydantic", "FastAPI orjson", "MLServer")
TOO_MUCH = {"binary": 500.0, "JSON": 1000.0}
"""Microseconds at most beyond onnxruntime."""


def main() -> None:
    parser = parser_for(__doc__, example="python benchmarks/serve.py --only requests --rounds 3")
    parser.add_argument("--rows", type=int, default=200_000, help="synthetic rows to train on (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each contender in a round")
    run_sections("serve", {"requests": requests, "limit": limit}, parser)


def requests(report: Report, given: argparse.Namespace) -> None:
    with scratch() as directory, ExitStack() as stack:
        servers = _servers(directory, stack, given)
        names = [f"{name}, {clients} client{'s' * (clients > 1)}" for name in servers for clients in CLIENTS]
        seen: dict[str, list[parts.Measured]] = {name: [] for name in names}
        for number in range(given.rounds):
            for name, ask in servers.items():
                for clients in CLIENTS:
                    found = ask(clients)
                    label = f"{name}, {clients} client{'s' * (clients > 1)}"
                    seen[label].append(found)
                    console.print(
                        f"  round {number + 1}/{given.rounds}  {label}: {found.requests_per_second:,.0f} requests/s, "
                        f"p50 {found.p50:,.0f} us, p99 {found.p99:,.0f} us",
                        highlight=False,
                    )
    for label, all_ in seen.items():
        _figure(report, label, [one.requests_per_second for one in all_], "requests/s")
        _figure(report, f"{label}, p50", [one.p50 for one in all_], "us")
        _figure(report, f"{label}, p99", [one.p99 for one in all_], "us")
    for clients in CLIENTS:
        _compare(report, f"{clients} client{'s' * (clients > 1)}")


def _compare(report: Report, load: str) -> None:
    median = report.median
    peers = [name for name in JSON_PEERS if f"{name}, {load}" in report.figures]
    best = max(peers, key=lambda name: median(f"{name}, {load}"))
    binary = median(f"FastAPI binary, {load}")
    for place in ("dictionary", "cube"):
        ours = f"Clickline {{}}, {place}, {load}"
        rate = median(ours.format("JSON")) / median(f"{best}, {load}")
        report.ratio(f"JSON, {place}/best peer ({best}), {load}", rate, wanted=3.0)
        slower = median(f"{best}, {load}, p99") / median(f"{ours.format('JSON')}, p99")
        report.ratio(f"p99 best peer/JSON, {place}, {load}", slower, wanted=1.0)
        report.ratio(f"binary, {place}/FastAPI binary, {load}", median(ours.format("binary")) / binary, wanted=1.5)


def _servers(
    directory: Path, stack: ExitStack, given: argparse.Namespace
) -> dict[str, Callable[[int], parts.Measured]]:
    """All run at the same time; those that are not asked sleep."""
    rows = synthetic(given.rows)
    store = parts.published(rows, directory)
    network = store / directory_of(1) / "network.onnx"
    raw = parts.raw_rows(rows)
    forms = {"JSON": parts.own_json(raw), "binary": parts.own_binary(raw)}
    asks: dict[str, Callable[[int], parts.Measured]] = {}

    def add(name: str, url: str, form: parts.Form) -> None:
        asks[name] = lambda clients: parts.wrk(url, form, directory, clients=clients, seconds=given.seconds)

    url = stack.enter_context(parts.own_server(store, forms["JSON"]))
    for name, form in forms.items():
        add(f"Clickline {name}, dictionary", url, form)
    url = stack.enter_context(with_cube(directory, store, forms["JSON"], stack))
    for name, form in forms.items():
        add(f"Clickline {name}, cube", url, form)
    fastapi = {"pydantic": parts.peer_json("/pydantic"), "orjson": parts.peer_json("/orjson")}
    fastapi["binary"] = parts.peer_binary("/binary")
    url = stack.enter_context(parts.peer_server("serve_fastapi", network, fastapi["orjson"]))
    for name, form in fastapi.items():
        add(f"FastAPI {name}", url, form)
    lit, v2 = parts.peer_json("/predict"), parts.peer_v2("/v2/models/ctr/infer")
    add("LitServe", stack.enter_context(parts.peer_server("serve_litserve", network, lit)), lit)
    try:
        add("MLServer", stack.enter_context(parts.peer_server("serve_mlserver", network, v2)), v2)
    except PeerError as error:
        console.print(f"  MLServer left out: {error}", highlight=False)
    return asks


def with_cube(directory: Path, store: Path, form: parts.Form, stack: ExitStack) -> Any:
    cube = stack.enter_context(LocalCube(directory / "cube", store=store, shards=2, replicas=1))
    cube.wait_for(1)
    addresses = ";".join(",".join(shard) for shard in cube.servers)
    return parts.own_server(
        store, form, "--cube", addresses, "--cube-name", cube.name, env={"CLICKLINE_TOKEN": cube.token}
    )


def limit(report: Report, given: argparse.Namespace) -> None:
    """onnxruntime alone, and one client's answers, in turns."""
    inside: list[float] = []
    ours: dict[str, list[float]] = {}
    with scratch() as directory, ExitStack() as stack:
        rows = synthetic(given.rows)
        store = parts.published(rows, directory)
        raw = parts.raw_rows(rows)
        forms = {"JSON": parts.own_json(raw), "binary": parts.own_binary(raw)}
        url = stack.enter_context(with_cube(directory, store, forms["JSON"], stack))
        network = Network((store / directory_of(1) / "network.onnx").read_bytes())
        feeds = parts.ready_inputs()
        for number in range(given.rounds):
            inside.append(_p50(lambda: network.run(feeds), seconds=given.seconds / 2))
            for name, form in forms.items():
                ours.setdefault(name, []).append(parts.wrk(url, form, directory, clients=1, seconds=given.seconds).p50)
            told = ", ".join(f"{name} {all_[-1]:,.0f} us" for name, all_ in ours.items())
            console.print(
                f"  round {number + 1}/{given.rounds}  onnxruntime {inside[-1]:,.0f} us, {told}", highlight=False
            )
    _figure(report, "onnxruntime in-process, p50", inside, "us")
    for name, all_ in ours.items():
        over = [seen - alone for seen, alone in zip(all_, inside, strict=True)]
        _figure(report, f"{name} through the cube, p50 beyond onnxruntime", over, "us")
        report.ratio(f"{TOO_MUCH[name]:g} us/overhead of {name}", TOO_MUCH[name] / statistics.median(over), wanted=1.0)


def _p50(call: Callable[[], object], *, seconds: float) -> float:
    for _ in range(100):
        call()
    taken, end = [], time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


def _figure(report: Report, name: str, values: list[float], unit: str) -> None:
    rounded = [round(value, 1) for value in values]
    report.figures[name] = {"median": statistics.median(rounded), "rounds": rounded, "unit": unit}


if __name__ == "__main__":
    guarded(main)
