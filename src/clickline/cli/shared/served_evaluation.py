"""Asking a suite's predictor for a whole data set, as its users would: raw rows by HTTP, over several connections.

The suite is looked after meanwhile, so a process that dies under the load is started again; a request that met it is
sent again: predictions change nothing.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np

from clickline.errors import PeerError

if TYPE_CHECKING:
    from clickline.client.raw_rows import RawRows
    from clickline.launch.suite import Suite
    from clickline.progress import Watcher

CONNECTIONS = 4
ROWS = 256
"""Of a request."""
_TRY_FOR = 30.0
_AGAIN = (429, 503, 504)


@dataclass(frozen=True)
class Served:
    """What the predictor said of many rows."""

    auc: float | None
    rows: int
    requests: int
    seconds: float
    versions: list[int]


@dataclass(frozen=True)
class Answer:
    """What it said of a few."""

    probabilities: list[float]
    """Of the first label."""
    version: int


class Asking:
    """A client of a suite's predictor. A context manager; any thread may ask."""

    def __init__(self, suite: Suite, *, label: str) -> None:
        self._suite, self._label = suite, label
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        headers = {"Content-Type": "application/json"}
        self._http = httpx.Client(trust_env=False, timeout=_TRY_FOR, limits=limits, headers=headers)

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ask(self, instances: Sequence[dict[str, Any]]) -> Answer:
        """Predictions for a few rows; tried again while nobody answers, or for as long as it is told to wait."""
        body = json.dumps({"instances": instances}).encode()
        give_up = time.monotonic() + _TRY_FOR
        while True:
            try:
                reply = self._http.post(f"{self._suite.http}/models/{self._suite.model}/predict", content=body)
            except httpx.TransportError as error:
                trouble = f"{type(error).__name__}: {error}"
            else:
                if reply.status_code == 200:
                    return self._read(reply)
                trouble = f"{reply.status_code}: {reply.text:.500}"
                if reply.status_code not in _AGAIN:
                    raise PeerError(f"the predictor refuses {len(instances)} rows: {trouble}")
            if time.monotonic() > give_up:
                raise PeerError(f"the predictor does not answer: {trouble}")
            time.sleep(0.1)

    def _read(self, reply: httpx.Response) -> Answer:
        found = reply.json()
        said = [one[self._label] if isinstance(one, dict) else one for one in found["predictions"]]
        return Answer([float(one) for one in said], int(found["version"]))

    def measure(self, parts: Iterable[RawRows], *, total: int | None, watcher: Watcher) -> Served:
        """Ask for all rows, several requests at a time, and compare with what came true."""
        from clickline.train.evaluation.metrics import auc

        waiting: deque[tuple[RawRows, Future[Answer]]] = deque()
        scores, labels, weights = [], [], []
        requests = rows = 0
        versions: set[int] = set()
        began = time.monotonic()
        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="asking") as threads:

            def take() -> None:
                nonlocal requests, rows
                part, future = waiting.popleft()
                answer = self._result(future)
                scores.append(np.array(answer.probabilities))
                labels.append(part.labels[:, 0])
                weights.append(part.weights)
                versions.add(answer.version)
                requests, rows = requests + 1, rows + len(part)
                share = None if not total else min(1.0, rows / total)
                watcher.advance(share=share, facts={"rows": f"{rows:,}", "version": max(versions)})

            try:
                for part in parts:
                    waiting.append((part, threads.submit(self.ask, part.instances)))
                    if len(waiting) > 2 * CONNECTIONS:
                        take()
                while waiting:
                    take()
            finally:
                for _, future in waiting:
                    future.cancel()
        seconds = time.monotonic() - began
        weighted = np.concatenate([w for w in weights if w is not None]) if weights and weights[0] is not None else None
        found = auc(np.concatenate(scores), np.concatenate(labels), weighted) if scores else None
        return Served(found, rows, requests, round(seconds, 3), sorted(versions))

    def _result(self, future: Future[Answer]) -> Answer:
        while True:
            try:
                return future.result(timeout=0.1)
            except NotYet:
                self._suite.poll()
