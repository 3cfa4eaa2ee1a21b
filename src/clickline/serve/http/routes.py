"""Which path means what. The OpenAPI page describes the same table, and a test holds them together.

A path is looked up once and then remembered, for as many paths as fit: names of models are in them, and whoever sends
random ones must not fill the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from clickline.net.request_errors import refuse

_REMEMBERED = 1024
_LONGEST_NUMBER = 19
_Shape = tuple[str | None, ...]
"""Parts of a path; None stands for any name."""


@dataclass(frozen=True, slots=True)
class Route:
    template: str
    method: str
    """GET, with which HEAD goes, or POST."""
    endpoint: str
    """A method of the service."""
    open: bool = False
    """Whether it is answered without a token."""

    @property
    def allow(self) -> bytes:
        return b"GET, HEAD, OPTIONS" if self.method == "GET" else b"POST, OPTIONS"


ROUTES = (
    Route("/v2", "GET", "server_metadata"),
    Route("/v2/health/live", "GET", "live", open=True),
    Route("/v2/health/ready", "GET", "ready", open=True),
    Route("/v2/models/{model}", "GET", "model_metadata"),
    Route("/v2/models/{model}/ready", "GET", "model_ready", open=True),
    Route("/v2/models/{model}/infer", "POST", "infer"),
    Route("/v2/models/{model}/versions/{version}", "GET", "model_metadata"),
    Route("/v2/models/{model}/versions/{version}/ready", "GET", "model_ready", open=True),
    Route("/v2/models/{model}/versions/{version}/infer", "POST", "infer"),
    Route("/predict", "POST", "predict"),
    Route("/models/{model}/predict", "POST", "predict"),
    Route("/ElasticCTRPredictionService/inference", "POST", "elastic"),
    Route("/ElasticCTRPredictionService/debug", "POST", "elastic"),
    Route("/GeneralModelService/inference", "POST", "general"),
    Route("/GeneralModelService/debug", "POST", "general"),
    Route("/metrics", "GET", "metrics"),
    Route("/status", "GET", "status"),
    Route("/openapi.json", "GET", "openapi"),
    Route("/docs", "GET", "docs"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A route and what its path names."""

    route: Route
    model: str | None = None
    version: int | None = None


class Router:
    """Finds routes."""

    def __init__(self) -> None:
        self._by_shape: dict[_Shape, Route] = {}
        for route in ROUTES:
            shape = tuple(None if part.startswith("{") else part for part in route.template.split("/"))
            self._by_shape[shape] = route
        self._known: dict[str, Place] = {}

    def find(self, path: str) -> Place:
        """Raises RequestError for a path that is not there, or a version that is no number."""
        found = self._known.get(path)
        if found is None:
            found = self._look_up(path)
            if len(self._known) >= _REMEMBERED:  # whoever filled it with names must not slow down the others
                self._known.clear()
            self._known[path] = found
        return found

    def _look_up(self, path: str) -> Place:
        if path.startswith(("http://", "https://")):  # as sent through a proxy
            path = "/" + path.split("/", 3)[3] if path.count("/") > 2 else "/"
        parts = tuple(path.rstrip("/").split("/"))
        route = next((route for shape, route in self._by_shape.items() if _fits(shape, parts)), None)
        if route is None:
            raise refuse("unknown_path", f"There is nothing at {path[:200]}; /docs lists what there is.")
        named = {
            template[1:-1]: unquote(part)
            for template, part in zip(route.template.split("/"), parts, strict=True)
            if template.startswith("{")
        }
        version = named.get("version")
        return Place(route, named.get("model"), None if version is None else _number(version))


def _fits(shape: _Shape, parts: tuple[str, ...]) -> bool:
    return len(shape) == len(parts) and all(s == p or (s is None and p) for s, p in zip(shape, parts, strict=True))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise refuse("unknown_version", f"'{text[:40]}' is no version: those are numbers, such as 12.")
    return int(text)
