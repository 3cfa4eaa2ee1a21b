"""JSON documents in which a predictor describes itself: what GET /v2, /v2/models/{model} and /status answer.

The server writes them and the clients read them; neither imports the other, so their shapes are here.
"""

from __future__ import annotations

from typing import TypedDict


class TensorMetadata(TypedDict):
    """An input or output of a model."""

    name: str
    datatype: str
    shape: list[int]
    """-1 for any number."""


class ModelMetadata(TypedDict):
    """A model, as the Open Inference Protocol describes it."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class ServerMetadata(TypedDict):
    """The server, as the Open Inference Protocol describes it."""

    name: str
    version: str
    extensions: list[str]


class VersionFailure(TypedDict):
    """The last version that could not be loaded; its number is None if not even that is known."""

    version: int | None
    error: str


class ModelStatus(TypedDict):
    """A model with the version in service; values are None before the first one is loaded."""

    store: str
    rows: str
    version: int | None
    versions: list[int]
    labels: list[str]
    created: float | None
    watermark: float | None
    failure: VersionFailure | None


class VariantStatus(TypedDict):
    """A model that gets a share of the requests of a split."""

    model: str
    weight: float
    tag: str


class ShadowStatus(TypedDict):
    """A model that is given a share of another model's requests as well."""

    model: str
    share: float


class PredictorStatus(TypedDict):
    """All models, splits and shadows of a server."""

    ready: bool
    default: str | None
    models: dict[str, ModelStatus]
    splits: dict[str, list[VariantStatus]]
    shadows: dict[str, ShadowStatus]
    waiting: int


class WorkerStatus(TypedDict):
    """The worker process that answers /status."""

    pid: int
    since: float
    connections: int
    body_bytes: int
    draining: bool


class ServerStatus(PredictorStatus):
    """What GET /status answers."""

    worker: WorkerStatus
