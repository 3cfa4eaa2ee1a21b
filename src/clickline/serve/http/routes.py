"""Routes: which path is answered by what. The OpenAPI page describes the same table, and a test holds them together.

A path is parsed once and then remembered, for as many paths as fit: names of models are in them, and a client that
sends random ones must not fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from clickline.net.request_errors import refuse

if TYPE_CHECKING:
    from clickline.serve.protocols.prediction_protocol import PredictionProtocol

_REMEMBERED = 1024
_LONGEST_NUMBER = 19
_Shape = tuple[str | None, ...]
"""Parts of a path; None stands for any name."""


@dataclass(frozen=True, slots=True)
class Route:
    """A path with one method besides OPTIONS."""

    template: str
    """The path, with {model} and {version} for parts that vary."""
    method: str
    """GET, which includes HEAD, or POST."""
    endpoint: str
    """The server's own answer to a GET."""
    open: bool = False
    """Whether it is answered without a token."""
    protocol: PredictionProtocol | None = None
    """The protocol of predictions by POST."""

    @property
    def allow(self) -> bytes:
        return b"GET, HEAD, OPTIONS" if self.method == "GET" else b"POST, OPTIONS"


_OWN_ROUTES = (
    Route("/v2", "GET", "server_metadata"),
    Route("/v2/health/live", "GET", "live", open=True),
    Route("/v2/health/ready", "GET", "ready", open=True),
    Route("/v2/models/{model}", "GET", "model_metadata"),
    Route("/v2/models/{model}/ready", "GET", "model_ready", open=True),
    Route("/v2/models/{model}/versions/{version}", "GET", "model_metadata"),
    Route("/v2/models/{model}/versions/{version}/ready", "GET", "model_ready", open=True),
    Route("/metrics", "GET", "metrics"),
    Route("/status", "GET", "status"),
    Route("/openapi.json", "GET", "openapi"),
    Route("/docs", "GET", "docs"),
)


def all_routes(protocols: Iterable[PredictionProtocol]) -> tuple[Route, ...]:
    """Those of the predictions, one for each path of each protocol, then the server's own."""
    predictions = [
        Route(path, "POST", protocol.name, protocol=protocol) for protocol in protocols for path in protocol.paths
    ]
    return (*predictions, *_OWN_ROUTES)


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """The route of a path, and the model and version that the path names."""

    route: Route
    model: str | None = None
    version: int | None = None


class Router:
    """Finds the route of a path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_shape: dict[_Shape, Route] = {}
        for route in routes:
            shape = tuple(None if part.startswith("{") else part for part in route.template.split("/"))
            self._by_shape[shape] = route
        self._known: dict[str, RouteMatch] = {}

    def find(self, path: str) -> RouteMatch:
        """Raises RequestError for an unknown path, or a version that is not a number."""
        match = self._known.get(path)
        if match is None:
            match = self._look_up(path)
            if len(self._known) >= _REMEMBERED:  # a client that filled it with names must not slow down the others
                self._known.clear()
            self._known[path] = match
        return match

    def _look_up(self, path: str) -> RouteMatch:
        if path.startswith(("http://", "https://")):  # as sent through a proxy
            path = "/" + path.split("/", 3)[3] if path.count("/") > 2 else "/"
        parts = tuple(path.rstrip("/").split("/"))
        route = next((route for shape, route in self._by_shape.items() if _fits(shape, parts)), None)
        if route is None:
            raise refuse("unknown_path", f"there is nothing at {path[:200]}; /docs lists all paths")
        named = {
            template[1:-1]: unquote(part)
            for template, part in zip(route.template.split("/"), parts, strict=True)
            if template.startswith("{")
        }
        version = named.get("version")
        return RouteMatch(route, named.get("model"), None if version is None else _number(version))


def _fits(shape: _Shape, parts: tuple[str, ...]) -> bool:
    return len(shape) == len(parts) and all(s == p or (s is None and p) for s, p in zip(shape, parts, strict=True))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise refuse("unknown_version", f"{text[:40]!r} is not a version: versions are numbers, such as 12")
    return int(text)
