"""The comparison of a shadow model's result with the result that was sent: counted, never sent itself."""

from __future__ import annotations

from functools import cache
from time import perf_counter

import numpy as np

from clickline.serve.metrics.counters import series
from clickline.serve.metrics.metric_sink import MetricSink
from clickline.serve.prediction import Outcome, PredictionResult

_labelled = cache(series)


class ShadowComparison:
    """One request that was copied to a shadow, whose outcome `done` is called with."""

    __slots__ = ("_began", "_counts", "_model", "_sent", "_shadow")

    def __init__(self, model: str, shadow: str, sent: Outcome, counts: MetricSink) -> None:
        self._model, self._shadow, self._sent, self._counts = model, shadow, sent, counts
        self._began = perf_counter()

    def done(self, result: Outcome) -> None:
        reason = "answered" if isinstance(result, PredictionResult) else result.reason
        self._counts.count("clickline_shadow_total", 1.0, _labelled(self._model, self._shadow, reason))
        if not isinstance(result, PredictionResult):
            return
        self._counts.observe(
            "clickline_shadow_seconds", perf_counter() - self._began, _labelled(self._model, self._shadow)
        )
        sent = self._sent
        # Models with other labels predict something else: there is nothing to compare.
        if not isinstance(sent, PredictionResult) or sent.labels != result.labels:
            return
        differences = np.abs(result.probability - sent.probability)
        for column, label in enumerate(sent.labels):
            self._counts.observe_all(
                "clickline_shadow_difference", differences[:, column], _labelled(self._model, self._shadow, label)
            )
