"""The server of the Open Inference Protocol over gRPC: where it listens, its threads, and gRPC's own limits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import grpc

from clickline.errors import PeerError
from clickline.serve.http.connection_table import ConnectionTimeouts
from clickline.serve.metrics.metric_sink import MetricSink, NoMetrics
from clickline.serve.protocols.grpc_service import GrpcService

if TYPE_CHECKING:
    from clickline.serve.prediction import PredictionService
    from clickline.serve.serve_settings import ServeLimits

_THREADS = 16
_HEAD = 64 * 1024
"""Bytes of a call's metadata."""
_STREAMS = 1024
"""Calls of one connection at once; its client queues further ones."""


class GrpcServer:
    """A running server. `address`: where it listens, with the port it was given for port 0."""

    def __init__(self, server: grpc.Server, address: str) -> None:
        self._server, self.address = server, address

    def stop(self, grace: float) -> None:
        """Accept no more calls, let those that run finish within `grace` seconds, then abort the rest."""
        self._server.stop(grace).wait()


def start_grpc(
    predictor: PredictionService,
    address: str,
    *,
    token: bytes | None = None,
    limits: ServeLimits,
    timeouts: ConnectionTimeouts | None = None,
    counts: MetricSink | None = None,
    on_authenticated: Callable[[str], None] = lambda _: None,
) -> GrpcServer:
    """Serve on a unix socket (a path) or HOST:PORT. With a token, every call but those of health must show it.

    `on_authenticated` is called with the peer of every call that has, by any thread.
    """
    timeouts = timeouts or ConnectionTimeouts()
    service = GrpcService(predictor, token, limits, counts or NoMetrics(), on_authenticated)
    options = [
        ("grpc.max_receive_message_length", limits.body),
        ("grpc.max_send_message_length", -1),  # answers are smaller than what was asked
        ("grpc.max_metadata_size", _HEAD),
        ("grpc.so_reuseport", 0),  # an address that is taken is an error, not a share of somebody else's calls
        ("grpc.compression_enabled_algorithms_bitset", 1),  # none: a few bytes can unpack to gigabytes
        ("grpc.http2.bdp_probe", 0),  # it would let anybody send 4 MiB that nobody wants to receive
        # One connection may have all the calls that the server admits at once.
        ("grpc.max_concurrent_streams", max(_STREAMS, limits.queue + _THREADS)),
        ("grpc.max_connection_idle_ms", _milliseconds(timeouts.idle)),
        ("grpc.max_connection_age_ms", _milliseconds(timeouts.age)),
        ("grpc.max_connection_age_grace_ms", _milliseconds(timeouts.body)),
    ]
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="grpc")
    # The queue of the pool has no bound of its own; `maximum_concurrent_rpcs` is its bound.
    server = grpc.server(pool, options=options, maximum_concurrent_rpcs=limits.queue + _THREADS)
    server.add_generic_rpc_handlers((service,))
    unix = "/" in address
    try:
        port = server.add_insecure_port(f"unix:{address}" if unix else address)
    except RuntimeError as error:
        raise PeerError(f"gRPC cannot listen on {address}: {error}") from None
    server.start()
    return GrpcServer(server, address if unix else f"{address.rpartition(':')[0]}:{port}")


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
