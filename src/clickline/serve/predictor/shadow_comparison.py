"""What a shadow model says, beside what the model said that answered: counted, never sent."""

from __future__ import annotations

from functools import cache
from time import perf_counter

import numpy as np

from clickline.net.request_errors import RequestError
from clickline.serve.metrics.counters import series
from clickline.serve.metrics.metric_sink import MetricSink
from clickline.serve.prediction import PredictionResult

_labelled = cache(series)


class ShadowComparison:
    """One request that was copied. `done` is called with the shadow's answer, or why there is none."""

    __slots__ = ("_answer", "_began", "_counts", "_model", "_shadow")

    def __init__(self, model: str, shadow: str, answer: PredictionResult | RequestError, counts: MetricSink) -> None:
        self._model, self._shadow, self._answer, self._counts = model, shadow, answer, counts
        self._began = perf_counter()

    def done(self, result: PredictionResult | RequestError) -> None:
        reason = "answered" if isinstance(result, PredictionResult) else result.reason
        self._counts.count("clickline_shadow_total", 1.0, _labelled(self._model, self._shadow, reason))
        if not isinstance(result, PredictionResult):
            return
        self._counts.observe(
            "clickline_shadow_seconds", perf_counter() - self._began, _labelled(self._model, self._shadow)
        )
        answer = self._answer
        # Models with other labels predict something else: there is nothing to compare.
        if not isinstance(answer, PredictionResult) or answer.labels != result.labels:
            return
        differences = np.abs(result.probability - answer.probability)
        for column, label in enumerate(answer.labels):
            self._counts.observe_all(
                "clickline_shadow_difference", differences[:, column], _labelled(self._model, self._shadow, label)
            )
