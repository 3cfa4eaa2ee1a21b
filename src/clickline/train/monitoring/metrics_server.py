"""HTTP server of a training process for monitoring: `/metrics` for Prometheus, `/health`, and `/status` of the run.

On a port of its own, at an address that the job or CLICKLINE_METRICS fixes; on the loopback address and any free port
by default. It answers from threads of its own, and only reads.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from clickline.errors import JobError
from clickline.net.addresses import listen_address
from clickline.train.monitoring.prometheus_metrics import Labelled

if TYPE_CHECKING:
    from clickline.config import Job


VARIABLE = "CLICKLINE_METRICS"
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
    ) -> None:
        """`complaints` are what is not well; `status` is that of the run, in the process that knows it."""
        registry = CollectorRegistry()
        registry.register(_Families(labels, families))
        ProcessCollector(registry=registry)
        host, port = place

        pages: dict[str, Page] = {
            "/metrics": lambda accept: _metrics(registry, accept),
            "/health": lambda _: _health(complaints()),
        }
        if status is not None:
            pages["/status"] = lambda _: _json(200, status())
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


def metrics_place(
    job: Job, *, role: str, rank: int, environ: Mapping[str, str] | None = None
) -> tuple[str, int] | None:
    """Where a process of a run answers; None if it does not. Port 0 is any free one.

    From `cluster.metrics_port` on, the process that knows the run comes first (the coordinator, the one process or rank
    0), then servers and trainers by their ranks.
    """
    said = (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    if said:
        try:
            host, port = listen_address(said if ":" in said else f":{said}")
        except JobError:
            raise JobError(f"{VARIABLE} is {said!r}, expected HOST:PORT or PORT, such as 127.0.0.1:9100") from None
        return host or "127.0.0.1", port
    cluster = job.cluster
    if not cluster.metrics:
        return None
    if not cluster.metrics_port:
        return cluster.metrics_host, 0
    # Ports are a function of role and rank: a scraper can be configured before the processes are started.
    before = {"coordinator": 0, "pserver": 1, "trainer": 1 + cluster.pservers if cluster.pservers else 0}[role]
    port = cluster.metrics_port + before + rank
    if port > 65_535:
        raise JobError(
            f"cluster.metrics_port is {cluster.metrics_port}: {role}.{rank} would need port {port}; lower it"
        )
    return cluster.metrics_host, port


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
