"""Decision 16: our HTTP worker and ASGI servers with the same reader. `make decision-http_worker` runs it.

16 rows of 39 columns a request as JSON, one worker process each, 1 and 8 clients in a closed loop over TCP loopback.

    clickline serve      our worker: limits, tokens and metrics included
    uvicorn, granian     asgi_predictor.py, a bare callable without any of these
    … constant           the same servers with an answer that lies ready: what a request takes without a prediction

If an ASGI server is within 60 µs of ours with one client, it should replace ours: that is what the page says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import serve_parts as parts
from closed_loop import measured, request_bytes
from datasets import synthetic
from decision_table import DecisionTable, Options, options
from libraries import libraries
from peers import scratch
from rounds import console

ROWS = 20_000
CLIENTS = (1, 8)
ALLOWED = 60.0
"""Microseconds."""


def asgi_command(server: str, port: int) -> list[str]:
    where = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    if server == "uvicorn":
        quiet = ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "error"]
        return [sys.executable, "-m", "uvicorn", "asgi_predictor:app", *where, *quiet]
    quiet = ["--loop", "uvloop", "--no-ws", "--no-access-log", "--log-level", "error", "--interface", "asgi"]
    return [sys.executable, "-m", "granian", "asgi_predictor:app", *where, *quiet]


def asgi_environment(store: Path, *, constant: bool) -> Mapping[str, str]:
    path = os.pathsep.join([str(Path(__file__).parent), str(libraries())])
    return {"PYTHONPATH": path, "CLICKLINE_BENCH_STORE": str(store), "CLICKLINE_BENCH_CONSTANT": "1" * constant}


def of_clients(url: str, form: parts.Form, seconds: float) -> dict[str, float]:
    figures = {}
    for clients in CLIENTS:
        request = request_bytes("POST", url + form.path, form.body, form.headers)
        seen = measured(url, request, clients=clients, seconds=seconds / len(CLIENTS))
        figures[f"p50 µs, {clients} client{'s' * (clients > 1)}"] = seen["p50 µs"]
        figures[f"requests/s, {clients} client{'s' * (clients > 1)}"] = seen["requests/s"]
    return figures


def run(given: Options) -> None:
    rows = synthetic(ROWS)
    form = parts.own_json(parts.raw_rows(rows))
    columns = ("p50 µs, 1 client", "requests/s, 1 client", "p50 µs, 8 clients", "requests/s, 8 clients")
    table = DecisionTable("0016-our-own-http-worker.md", columns)
    with scratch() as directory, ExitStack() as stack:
        store = parts.published(rows, directory).resolve()
        urls = {"clickline serve": stack.enter_context(parts.own_server(store, form))}
        for server in ("uvicorn", "granian"):
            for constant in (False, True):
                name = f"{server}, constant" if constant else server
                environment = asgi_environment(store, constant=constant)
                command = partial(asgi_command, server)
                urls[name] = stack.enter_context(parts.command_server(command, form, env=environment))
        contenders = {name: partial(of_clients, url, form, given.seconds) for name, url in urls.items()}
        table.alternate(contenders, rounds=given.rounds)
    own = table.median("clickline serve", columns[0])
    for server in ("uvicorn", "granian"):
        difference = table.median(server, columns[0]) - own
        verdict = "it should replace ours" if difference < ALLOWED else "ours stays"
        console.print(f"{server}: {difference:+.0f} µs a request with one client; {verdict}", highlight=False)
    table.finish(write=given.write)


if __name__ == "__main__":
    run(options(__doc__, seconds=4.0))
