"""Evaluating what a suite serves: a whole data set is predicted through its predictor and compared with its labels.

Rows are sent as users would send them: raw, by HTTP, over several connections. The suite is polled meanwhile, so a
process that dies under the load is started again; a request that met it is sent again: predictions change nothing.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass

import httpx
import numpy as np

from clickline.client.raw_rows import Instance, RawRows
from clickline.config.training import Loss
from clickline.errors import PeerError
from clickline.launch.stack.stack_events import MeasuringProgress
from clickline.launch.suite import Suite
from clickline.train.evaluation.metrics import auc
from clickline.train.evaluation.value_metrics import measure_values

CONNECTIONS = 4
_TRY_FOR = 30.0
_TRY_AGAIN = (429, 503, 504)
"""Statuses of a server that has too much to do, or nothing to serve yet."""


@dataclass(frozen=True)
class ServedMetrics:
    """How good predictions of many rows were, and which versions made them."""

    auc: float | None
    rows: int
    requests: int
    seconds: float
    versions: list[int]
    rmse: float | None = None
    """With a squared loss; there is no AUC then."""
    mae: float | None = None


@dataclass(frozen=True)
class PredictedRows:
    """Predictions of one request."""

    probabilities: list[float]
    """Of the first label; values, with a squared loss."""
    version: int


class ServedEvaluation:
    """Sends rows to a suite's predictor. A context manager; `predict` may be called from any thread."""

    def __init__(self, suite: Suite, *, label: str, loss: Loss = "log") -> None:
        self._suite, self._label = suite, label
        self._loss: Loss = loss
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        headers = {"Content-Type": "application/json"}
        self._http = httpx.Client(trust_env=False, timeout=_TRY_FOR, limits=limits, headers=headers)

    def __enter__(self) -> ServedEvaluation:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def predict(self, instances: Sequence[Instance]) -> PredictedRows:
        """Predictions of a few rows; sent again for a while if nobody answers or the server is overloaded."""
        body = json.dumps({"instances": instances}).encode()
        give_up = time.monotonic() + _TRY_FOR
        while True:
            try:
                response = self._http.post(f"{self._suite.http}/models/{self._suite.model}/predict", content=body)
            except httpx.TransportError as error:
                trouble = f"{type(error).__name__}: {error}"
            else:
                if response.status_code == 200:
                    return self._read(response)
                trouble = f"{response.status_code}: {response.text:.500}"
                if response.status_code not in _TRY_AGAIN:
                    raise PeerError(f"the predictor refuses {len(instances)} rows: {trouble}")
            if time.monotonic() > give_up:
                raise PeerError(f"the predictor does not answer: {trouble}")
            time.sleep(0.1)

    def _read(self, response: httpx.Response) -> PredictedRows:
        answer = response.json()
        # With several labels, a prediction is an object of them.
        values = [value[self._label] if isinstance(value, dict) else value for value in answer["predictions"]]
        return PredictedRows([float(value) for value in values], int(answer["version"]))

    def measure(
        self, parts: Iterable[RawRows], *, total: int | None, on_progress: Callable[[MeasuringProgress], None]
    ) -> ServedMetrics:
        """Predict all rows, several requests at a time, and compare them with their labels."""
        pending: deque[tuple[RawRows, Future[PredictedRows]]] = deque()
        scores, labels, weights = [], [], []
        requests = rows = 0
        versions: set[int] = set()
        began = time.monotonic()
        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="evaluation") as threads:

            def take_oldest() -> None:
                nonlocal requests, rows
                # Oldest first, not as they finish: labels and scores stay in the order of the data, whichever request
                # is slow.
                part, future = pending.popleft()
                predicted = self._result(future)
                scores.append(np.array(predicted.probabilities))
                labels.append(part.labels[:, 0])
                weights.append(part.weights)
                versions.add(predicted.version)
                requests, rows = requests + 1, rows + len(part)
                on_progress(MeasuringProgress(rows, total, max(versions)))

            try:
                for part in parts:
                    pending.append((part, threads.submit(self.predict, part.instances)))
                    # Reading stays ahead of the connections, but never holds the whole data set.
                    if len(pending) > 2 * CONNECTIONS:
                        take_oldest()
                while pending:
                    take_oldest()
            finally:
                # The executor waits for what was submitted; after an error, requests that have not begun are dropped.
                for _, future in pending:
                    future.cancel()
        seconds = time.monotonic() - began
        weighted = np.concatenate([w for w in weights if w is not None]) if weights and weights[0] is not None else None
        tally = rows, requests, round(seconds, 3), sorted(versions)
        if not scores:
            return ServedMetrics(None, *tally)
        given, wanted = np.concatenate(scores), np.concatenate(labels)
        if self._loss == "squared":
            errors = measure_values(given, wanted, weights=weighted)
            return ServedMetrics(None, *tally, rmse=errors.rmse, mae=errors.mae)
        return ServedMetrics(auc(given, wanted, weighted), *tally)

    def _result(self, future: Future[PredictedRows]) -> PredictedRows:
        while True:
            try:
                return future.result(timeout=0.1)
            except NotYet:
                # This thread is also the one that looks after the processes.
                self._suite.poll()
