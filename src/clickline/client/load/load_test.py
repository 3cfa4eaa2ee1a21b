"""One measurement of a predictor: requests of one protocol, prepared beforehand, then load, then the figures."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from clickline.client.http_requests import Reply, RequestBuilder, ServerAddress, infer_path, predict_path
from clickline.client.load.http_load import HttpLoad, LoadPlan, LoadResult, OnProgress, PreparedRequest
from clickline.client.load.percentiles import summary
from clickline.client.payloads import (
    Prediction,
    Row,
    binary_infer_body,
    infer_body,
    infer_request,
    json_rows_body,
    read_infer,
    read_json_rows,
)

PROTOCOLS = ("json", "v2", "binary", "grpc")
_BODIES = 64
"""Different requests that are prepared and sent in turn."""
_LENGTH = b"inference-header-content-length"


def measure(
    address: ServerAddress,
    rows: Sequence[Row],
    load: LoadPlan,
    *,
    protocol: str = "json",
    per_request: int = 16,
    model: str,
    token: str | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[dict[str, Any], LoadResult]:
    """The figures, and the time of each request. Requests have `per_request` rows, drawn from `rows` with the load's
    seed."""
    parts = _parts(rows, per_request, load.seed)
    if protocol == "grpc":
        from clickline.client.load.grpc_load import GrpcLoad

        prepared = [(infer_request(part, model=model), len(part)) for part in parts]
        result = GrpcLoad(address, prepared, load, token=token).run(on_progress)
    else:
        tls = ssl.create_default_context() if address.secure else None
        builder = RequestBuilder(address, token)
        requests = [_prepared(builder, protocol, part, model) for part in parts]
        result = HttpLoad(address, requests, load, tls=tls).run(on_progress)
    return _figures(result, load, protocol, per_request), result


def _parts(rows: Sequence[Row], size: int, seed: int) -> list[list[Row]]:
    random = np.random.default_rng(seed)
    return [[rows[i] for i in random.integers(0, len(rows), size).tolist()] for _ in range(_BODIES)]


def _prepared(requests: RequestBuilder, protocol: str, rows: list[Row], model: str) -> PreparedRequest:
    if protocol == "json":
        return PreparedRequest(
            requests.post(predict_path(model), json_rows_body(rows)),
            len(rows),
            lambda reply: read_json_rows(reply.body),
        )
    if protocol == "v2":
        return PreparedRequest(requests.post(infer_path(model), infer_body(rows)), len(rows), _read_infer)
    body, head = binary_infer_body(rows)
    request = requests.post(
        infer_path(model), body, kind="application/octet-stream", extra=f"Inference-Header-Content-Length: {head}\r\n"
    )
    return PreparedRequest(request, len(rows), _read_infer)


def _read_infer(reply: Reply) -> Prediction:
    head = reply.headers.get(_LENGTH)
    return read_infer(reply.body, None if head is None else int(head))


def _figures(result: LoadResult, load: LoadPlan, protocol: str, per_request: int) -> dict[str, Any]:
    answered, rounded = len(result.taken), partial(round, ndigits=1)
    return {
        "protocol": protocol,
        "loop": "closed" if load.rate is None else "open",
        "rate": load.rate,
        "connections": load.connections,
        "rows": per_request,
        "requests": result.done,
        "failed": result.errors.total(),
        "errors": dict(result.errors.most_common()),
        "versions": {str(version): count for version, count in sorted(result.versions.items())},
        "seconds": round(result.seconds, 4),
        "qps": rounded(answered / result.seconds) if result.seconds else 0.0,
        "rows_per_second": rounded(result.rows / result.seconds) if result.seconds else 0.0,
        "microseconds": summary(result.taken),
    }
