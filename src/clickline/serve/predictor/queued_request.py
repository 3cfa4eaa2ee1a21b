"""A request in the predictor's queue, and how it is given another version if its own is gone."""

from __future__ import annotations

from dataclasses import dataclass

from clickline.net.request_errors import refuse
from clickline.serve.metrics.request_series import RequestSeries
from clickline.serve.prediction import CacheKey, OnResult, PredictionInput, ReadAgain
from clickline.serve.predictor.model_version import ModelVersion
from clickline.serve.predictor.served_model import ServedModel

_MOST_MOVES = 2
"""How often a request may be given another version, because the cube has dropped the one before."""


@dataclass(slots=True)
class QueuedRequest:
    """A request on its way to a batch."""

    model_version: ModelVersion
    question: PredictionInput
    done: OnResult
    """Called once, by the thread that computes."""
    served: ServedModel
    series: RequestSeries
    """Labels of the metrics; the variant is what the result is tagged with."""
    arrived: float
    deadline: float
    pinned: bool
    """Whether the client asked for this very version."""
    again: ReadAgain | None = None
    cache_key: CacheKey | None = None
    """The request, if its result is to be cached."""
    moves: int = 0
    """How often it was given another version."""
    finished: bool = False
    """Whether `done` was called."""

    def __len__(self) -> int:
        return len(self.question.batch)


def move(request: QueuedRequest, why: str) -> None:
    """Give the request the version that is current now. Raises RequestError if there is none that can answer it."""
    number = request.model_version.version
    if request.pinned:
        raise refuse("unknown_version", f"version {number} is no longer on the cube; ask without a version")
    # This may load a version in the thread that computes; without another version the batch cannot be answered.
    if request.served.current is request.model_version:  # the next look for versions is still to come
        request.served.refresh()
    moved_to = request.served.model_version()
    if moved_to is request.model_version or request.moves >= _MOST_MOVES:
        raise refuse("rows_unavailable", f"version {number} cannot be read: {why}", 0.2)
    if not moved_to.schema.same_features(request.model_version.schema):
        # Its keys were made by other definitions, so the body has to be read once more.
        if request.again is None:
            raise refuse("not_ready", f"version {moved_to.version} has other features; ask again", 0.1)
        request.question = request.again(moved_to.reader)
    request.model_version = moved_to
    request.moves += 1
