"""Labels of the metrics of a request: by model and variant, created once for each pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from clickline.serve.metrics.counters import series


class _ByProtocol(dict[str, str]):
    """Labels by the name of a protocol, each created when it is first used."""

    def __init__(self, model: str, variant: str) -> None:
        super().__init__()
        self._model, self._variant = model, variant

    def __missing__(self, protocol: str) -> str:
        label = self[protocol] = series(protocol, self._model, self._variant)
        return label


@dataclass(frozen=True, slots=True)
class RequestSeries:
    """Labels of one model and variant. Models and variants are those of the configuration, so there are few."""

    model: str
    variant: str
    read: str
    queue: str
    total: str
    requests: Mapping[str, str]
    """By protocol."""

    def failures(self, reason: str) -> str:
        return series(reason, self.model, self.variant)

    def predicted(self, label: str) -> str:
        return _predicted(self.model, self.variant, label)


@cache
def series_of(model: str, variant: str = "") -> RequestSeries:
    """`variant`: its tag; empty if nothing was split."""
    stages = {stage: series(stage, model, variant) for stage in ("read", "queue", "total")}
    return RequestSeries(model, variant, **stages, requests=_ByProtocol(model, variant))


_predicted = cache(series)
NO_MODEL = series_of("")
"""Of requests that fail before it is known which model they are for."""
