"""HTTP server of a training process: `/metrics` for Prometheus, probes for Kubernetes, `/health` and `/status`.

On a port of its own, at an address that the job or CLICKLINE_METRICS fixes; on the loopback address and any free port
by default. It answers from threads of its own, and only reads.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from clickline.errors import JobError
from clickline.train.monitoring.metrics_place import VARIABLE
from clickline.train.monitoring.prometheus_metrics import Labelled

_SILENCE = 10.0
"""Seconds after which an idle connection is closed."""
Page = Callable[[str], tuple[int, str, bytes]]
"""Status code, content type and body, by the request's Accept header."""


class MetricsServer:
    """Serves metrics from its construction until `close`."""

    def __init__(
        self,
        place: tuple[str, int],
        *,
        labels: Labelled,
        families: Callable[[Labelled], Iterator[Metric]],
        complaints: Callable[[], list[str]],
        status: Callable[[], Mapping[str, object]] | None = None,
        not_live: Callable[[], list[str]] = list,
        not_ready: Callable[[], list[str]] = list,
    ) -> None:
        """`complaints` are what is not well; `status` is that of the run, in the process that knows it.

        `not_live` and `not_ready` say why this process should be restarted, and why it does not take part yet or any
        more: sentences, none if all is well. A process that should be restarted is not ready either.
        """
        registry = CollectorRegistry()
        registry.register(_Families(labels, families))
        ProcessCollector(registry=registry)
        host, port = place

        pages: dict[str, Page] = {
            "/metrics": lambda accept: _metrics(registry, accept),
            "/health": lambda _: _health(complaints()),
            "/livez": lambda _: _health(not_live()),
            "/readyz": lambda _: _health([*not_live(), *not_ready()]),
        }
        if status is not None:
            # msgspec writes null for a loss that is not a number, where json would write what nobody can read.
            pages["/status"] = lambda _: (200, "application/json", msgspec.json.encode(status()) + b"\n")
        try:
            # The server constructs a handler for each connection itself, so pages are an attribute of its class.
            self._server = _server(host, port, type("Handler", (_Handler,), {"pages": pages}))
        except OSError as error:
            raise JobError(
                f"metrics cannot be answered at {host}:{port}: {error.strerror or error}; set cluster.metrics_host and "
                f"cluster.metrics_port, or {VARIABLE}, to an address of this machine that is free"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="clickline-metrics", daemon=True)
        self._thread.start()
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self._server.server_address[1]}/metrics"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)


def _server(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # A client that is slow to read its answer must not keep the process from ending.
        daemon_threads = True

        def server_bind(self) -> None:  # without asking a name server who we are, which may take seconds
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(self.server_address)
            self.server_address = self.socket.getsockname()
            self.server_name, self.server_port = str(host), int(self.server_address[1])

    return Server((host, port), handler)


class _Handler(BaseHTTPRequestHandler):
    pages: Mapping[str, Page]
    timeout = _SILENCE

    def do_GET(self) -> None:
        page = self.pages.get(self.path.partition("?")[0])
        if page is None:
            code, kind, body = _json(404, {"error": f"not here; known: {', '.join(self.pages)}"})
        else:
            code, kind, body = page(self.headers.get("Accept", ""))
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """A scrape each second is not worth a line."""


class _Families(Collector):
    def __init__(self, labels: Labelled, families: Callable[[Labelled], Iterator[Metric]]) -> None:
        self._labels, self._families = labels, families

    def collect(self) -> Iterator[Metric]:
        return self._families(self._labels)

    def describe(self) -> list[Metric]:
        return []  # else the registry would ask for figures now, which may not be there yet


def _metrics(registry: CollectorRegistry, accept: str) -> tuple[int, str, bytes]:
    encoder, kind = choose_encoder(accept)
    return 200, kind, encoder(registry)


def _health(complaints: list[str]) -> tuple[int, str, bytes]:
    return _json(503 if complaints else 200, {"well": not complaints, "complaints": complaints})


def _json(code: int, content: Mapping[str, object]) -> tuple[int, str, bytes]:
    return code, "application/json", json.dumps(content).encode() + b"\n"
