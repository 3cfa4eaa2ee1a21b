"""The interface of a prediction protocol: how one kind of HTTP request is opened, read, answered and refused.

A worker is given the protocols that it speaks, those of other products among them (clickline.compat), which this
package does not know. A body is opened before the version is chosen, as far as that needs no version (is it whole,
which variant does it ask for), and its features are read afterwards, by the version's own reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from clickline.net.request_errors import RequestError
from clickline.serve.http.http_messages import Request, Response
from clickline.serve.prediction import PredictionInput, PredictionResult, RequestReader


class OpenedRequest:
    """What is known of a request before its features are read."""

    __slots__ = ("body", "content", "missing")

    def __init__(self, body: bytes, content: Any = None) -> None:
        """`body`: what identifies the request in the request cache; empty: it is not cached. `content`: whatever the
        protocol has read from it already and needs again."""
        self.body, self.content = body, content
        self.missing = 0


@dataclass(frozen=True, slots=True)
class ProtocolDescription:
    """A protocol on the OpenAPI page; schemas are JSON schemas by name."""

    summary: str
    request: str
    """Name of the schema of its requests."""
    response: str
    example: object
    schemas: Mapping[str, object] = field(default_factory=dict)
    """Schemas that only this protocol has."""
    error: str = ""
    """Name of the schema of its errors, besides the common one; empty: it has none of its own."""
    binary: bool = False
    """Whether bodies may hold binary tensors behind their JSON."""


class PredictionProtocol(Protocol):
    """One protocol. Its methods are called by the event loop and must not block."""

    @property
    def name(self) -> str:
        """The label of its requests in the metrics."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Where it is answered, with {model} and {version} for parts that vary."""

    @property
    def description(self) -> ProtocolDescription: ...

    def open(self, body: bytes, request: Request) -> OpenedRequest:
        """Check what can be checked without a version. Raises RequestError."""

    def key(self, opened: OpenedRequest) -> str | int | None:
        """What decides among the variants of a sticky split; only called where there is one."""

    def read(self, opened: OpenedRequest, reader: RequestReader, *, most_rows: int) -> PredictionInput:
        """The features. Raises RequestError."""

    def answer(self, result: PredictionResult, opened: OpenedRequest) -> Response: ...
    def failure(self, error: RequestError, opened: OpenedRequest | None) -> Response:
        """The response that refuses a request; `opened` is None if not even that succeeded."""
