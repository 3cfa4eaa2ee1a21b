"""A batch, computed: the requests in it get their results, or the errors that are theirs."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from clickline.data.batch import join
from clickline.errors import ClicklineError
from clickline.net.request_errors import RequestError, refuse
from clickline.serve.failure_log import log_failure
from clickline.serve.metrics.metric_sink import MetricSink
from clickline.serve.prediction import Outcome, PredictionResult
from clickline.serve.predictor.queued_request import QueuedRequest, move
from clickline.serve.predictor.row_sources import VersionGoneError

_log = logging.getLogger(__name__)


class BatchComputation:
    """Computes groups of requests, in the thread that asks for it; `finish` hands over the outcome of each."""

    def __init__(self, counts: MetricSink, *, finish: Callable[[QueuedRequest, Outcome], None]) -> None:
        self._counts, self._finish = counts, finish

    def answer(self, group: list[QueuedRequest]) -> None:
        """Compute requests that all have the same version, and finish them."""
        version = group[0].model_version
        try:
            # `join` empties the list that it is given; the requests keep their batches, for `_move` and a second try.
            batch = group[0].question.batch if len(group) == 1 else join([request.question.batch for request in group])
            probability = version.predict(batch, requests=len(group))
        except VersionGoneError as error:
            self._move(group, str(error))
            return
        except RequestError as error:
            # Raised by the row source, not for the values of one request: to try each alone would only send more reads
            # to a cube that fails.
            for request in group:
                self._finish(request, error)
            return
        except Exception as error:  # a bug, or a network that fails on some values
            if len(group) > 1:  # one of them may be the cause; the others must not fail with it
                for request in group:
                    self.answer([request])
                return
            if not isinstance(error, ClicklineError):
                log_failure(_log, "a prediction failed", error)
            self._finish(group[0], refuse("internal", f"the prediction failed: {error}"))
            return
        self._counts.observe("clickline_batch_rows", len(batch))
        self._counts.count("clickline_rows_total", len(batch))
        self._count_predicted(group, probability, version.labels)
        first = 0
        for request in group:
            last = first + len(request)
            result = PredictionResult(
                probability[first:last],
                version.version,
                request.served.name,
                request.series.variant,
                version.labels,
                version.output,
            )
            # In the cache of the version that computed it, which need not be the one that was chosen.
            if request.cache_key is not None and version.requests is not None:
                version.requests.put(request.cache_key, result.probability, request.question.missing)
            self._finish(request, result)
            first = last

    def _count_predicted(
        self, group: list[QueuedRequest], probability: NDArray[np.float32], labels: tuple[str, ...]
    ) -> None:
        """Count probabilities: once for the whole batch, unless it has requests of several variants."""
        first = last = 0
        for number, request in enumerate(group, 1):
            last += len(request)
            if number < len(group) and group[number].series is request.series:
                continue
            for column, label in enumerate(labels):
                values = probability[first:last, column]
                self._counts.observe_all("clickline_predicted_probability", values, request.series.predicted(label))
            first = last

    def _move(self, group: list[QueuedRequest], why: str) -> None:
        """The cube does not have the version any more: compute anew with the one that is current now."""
        moved: list[QueuedRequest] = []
        for request in group:
            try:
                move(request, why)
                moved.append(request)
            except RequestError as error:
                self._finish(request, error)
            except Exception as error:
                log_failure(_log, "a request could not be read again", error)
                self._finish(request, refuse("internal", f"the request could not be read again: {error}"))
        # `answer` may come back here if that version is gone too; `move` ends this after _MOST_MOVES.
        while moved:  # another switch may have come between them
            same = [request for request in moved if request.model_version is moved[0].model_version]
            moved = [request for request in moved if request.model_version is not same[0].model_version]
            self.answer(same)
