"""One request on its way through a predictor, and how it is given another version if its own is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clickline.net.request_errors import RequestError, refuse
from clickline.serve.metrics.request_series import RequestSeries
from clickline.serve.prediction import PredictionInput, PredictionResult
from clickline.serve.predictor.feature_reader import FeatureReader
from clickline.serve.predictor.model_version import Loaded
from clickline.serve.predictor.request_cache import CacheKey
from clickline.serve.predictor.served_model import Served

Done = Callable[[PredictionResult | RequestError], None]
Again = Callable[[FeatureReader], PredictionInput]
"""Reads the same request once more, by the features of another version."""
_MOVES = 2
"""How often a request may be given another version, because the cube has dropped the one before."""


@dataclass(slots=True)
class Item:
    """A request on its way."""

    loaded: Loaded
    question: PredictionInput
    done: Done
    served: Served
    series: RequestSeries
    """Of the metrics; its variant is what the answer is tagged with."""
    arrived: float
    deadline: float
    pinned: bool
    """Whether the client asked for this very version."""
    again: Again | None = None
    cache_key: CacheKey | None = None
    """The request, if its answer is to be kept."""
    moves: int = 0
    """How often it was given another version."""
    told: bool = False
    """Whether `done` has heard of it."""

    def __len__(self) -> int:
        return len(self.question.batch)


def move(item: Item, why: str) -> None:
    """Give the request the version that is current now."""
    if item.pinned:
        raise refuse("unknown_version", f"version {item.loaded.version} is on the cube no more; ask without a version")
    if item.served.current is item.loaded:
        item.served.refresh()
    loaded = item.served.loaded()
    if loaded is item.loaded or item.moves >= _MOVES:
        raise refuse("rows_unavailable", f"version {item.loaded.version} cannot be read: {why}", 0.2)
    if not loaded.schema.same_features(item.loaded.schema):
        if item.again is None:
            raise refuse("not_ready", f"version {loaded.version} has other features; ask again", 0.1)
        item.question = item.again(loaded.reader)
    item.loaded = loaded
    item.moves += 1
