"""One measurement of a predictor: requests in one of its forms, made beforehand, then load, then the figures."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from clickline.client.http_requests import Address, Reply, Requests, infer_path, predict_path
from clickline.client.load.http_load import Ask, HttpLoad, Load, Tally, Told
from clickline.client.load.percentiles import summary
from clickline.client.payloads import (
    Prediction,
    Row,
    binary_body,
    infer_request,
    plain_body,
    read_plain,
    read_v2,
    v2_body,
)

PROTOCOLS = ("json", "v2", "binary", "grpc")
_BODIES = 64
"""Different requests that are made beforehand and sent in turn."""
_LENGTH = b"inference-header-content-length"


def measure(
    address: Address,
    rows: Sequence[Row],
    load: Load,
    *,
    protocol: str = "json",
    per_request: int = 16,
    model: str,
    token: str | None = None,
    tell: Told | None = None,
) -> tuple[dict[str, Any], Tally]:
    """The figures, and every single time. Requests have `per_request` rows, drawn from `rows` with the load's seed."""
    parts = _parts(rows, per_request, load.seed)
    if protocol == "grpc":
        from clickline.client.load.grpc_load import GrpcLoad

        asks = [(infer_request(part, model=model), len(part)) for part in parts]
        tally = GrpcLoad(address, asks, load, token=token).run(tell)
    else:
        tls = ssl.create_default_context() if address.secure else None
        requests = Requests(address, token)
        tally = HttpLoad(address, [_ask(requests, protocol, part, model) for part in parts], load, tls=tls).run(tell)
    return _figures(tally, load, protocol, per_request), tally


def _parts(rows: Sequence[Row], size: int, seed: int) -> list[list[Row]]:
    random = np.random.default_rng(seed)
    return [[rows[i] for i in random.integers(0, len(rows), size).tolist()] for _ in range(_BODIES)]


def _ask(requests: Requests, protocol: str, rows: list[Row], model: str) -> Ask:
    if protocol == "json":
        return Ask(
            requests.post(predict_path(model), plain_body(rows)), len(rows), lambda reply: read_plain(reply.body)
        )
    if protocol == "v2":
        return Ask(requests.post(infer_path(model), v2_body(rows)), len(rows), _read_v2)
    body, head = binary_body(rows)
    request = requests.post(
        infer_path(model), body, kind="application/octet-stream", extra=f"Inference-Header-Content-Length: {head}\r\n"
    )
    return Ask(request, len(rows), _read_v2)


def _read_v2(reply: Reply) -> Prediction:
    said = reply.headers.get(_LENGTH)
    return read_v2(reply.body, None if said is None else int(said))


def _figures(tally: Tally, load: Load, protocol: str, per_request: int) -> dict[str, Any]:
    answered, rounded = len(tally.taken), partial(round, ndigits=1)
    return {
        "protocol": protocol,
        "loop": "closed" if load.rate is None else "open",
        "rate": load.rate,
        "connections": load.connections,
        "rows": per_request,
        "requests": tally.done,
        "failed": tally.errors.total(),
        "errors": dict(tally.errors.most_common()),
        "versions": {str(version): count for version, count in sorted(tally.versions.items())},
        "seconds": round(tally.seconds, 4),
        "qps": rounded(answered / tally.seconds) if tally.seconds else 0.0,
        "rows_per_second": rounded(tally.rows / tally.seconds) if tally.seconds else 0.0,
        "microseconds": summary(tally.taken),
    }
