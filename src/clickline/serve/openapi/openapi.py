"""The OpenAPI description of the server.

Every status that a path can answer with is listed, those of broken or impatient clients included.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from clickline import __version__
from clickline.serve.http.routes import Route, all_routes
from clickline.serve.openapi.json_schemas import SCHEMAS, Json, reference_to
from clickline.serve.protocols.prediction_protocol import PredictionProtocol

ERRORS = {
    400: "The request is malformed, or its features are: unknown, of a wrong type or shape, not finite.",
    401: "The token is missing or wrong.",
    404: "There is no such model, version or path.",
    405: "The path is there, but answers other methods; `Allow` names them.",
    408: "The request took too long to come.",
    413: "The body or the number of rows is above the limit.",
    414: "The URL is too long.",
    415: "The body is packed in a way that is not understood.",
    417: "Only 100-continue can be expected.",
    429: "Too many requests, connections or bytes are under way; `Retry-After` says when to try again.",
    431: "The headers are too large.",
    500: "A bug; the server's log has more.",
    501: "CONNECT, or a body that is packed and chunked.",
    503: "No version is complete yet, rows cannot be read, or the server is about to end.",
    504: "The request had to wait too long and was not computed.",
    505: "Another version of HTTP than 1.0 and 1.1.",
}
_ALWAYS = (400, 401, 405, 408, 413, 414, 417, 429, 431, 500, 501, 505)
_OF_PREDICTIONS = (404, 415, 503, 504)
_VERSION: Json = {
    "name": "version",
    "in": "path",
    "required": True,
    "schema": {"type": "integer", "minimum": 1},
    "description": "One of the versions that are loaded.",
}
_BINARY: Json = {
    "name": "Inference-Header-Content-Length",
    "in": "header",
    "required": False,
    "schema": {"type": "integer", "minimum": 0},
    "description": "Length of the JSON at the start of the body, where binary tensors follow it.",
}


@dataclass(frozen=True, slots=True)
class _Operation:
    """A GET of the server's own: what it answers, and the errors it has beside the common ones."""

    summary: str
    schema: str = ""
    """Name of the schema of the answer; empty: not JSON, or not described."""
    content_type: str = "application/json"
    errors: tuple[int, ...] = ()


_OPERATIONS = {
    "server_metadata": _Operation("The server", "ServerMetadata"),
    "live": _Operation("Whether the process lives", "Live"),
    "ready": _Operation("Whether every model has a complete version", "Ready", errors=(503,)),
    "model_metadata": _Operation("A model's inputs and outputs", "ModelMetadata", errors=(404, 503)),
    "model_ready": _Operation("Whether a model can answer", "ModelReady", errors=(404, 503)),
    "metrics": _Operation("Counters of all workers, for Prometheus", content_type="text/plain"),
    "status": _Operation("Models, their versions, this worker", "Status"),
    "openapi": _Operation("This description"),
    "docs": _Operation("This description, for people", content_type="text/html"),
}


@cache
def description(protocols: tuple[PredictionProtocol, ...], models: tuple[str, ...] = ()) -> Json:
    """The document; with the names of `models` that can be asked for, if they are given."""
    paths: Json = {}
    for route in all_routes(protocols):
        operation = _operation(route)
        paths[route.template] = {route.method.lower(): operation, "options": _options(route)}
        if route.method == "GET":
            paths[route.template]["head"] = _head(route, operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Clickline predictor",
            "version": __version__,
            "description": "Raw features in, click-through probabilities out, with the version that made them.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "security": [{}, {"token": []}],
        "components": {
            "parameters": {"model": _model_parameter(models), "version": _VERSION},
            "schemas": SCHEMAS
            | {name: schema for protocol in protocols for name, schema in protocol.description.schemas.items()},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Needed where the server can be reached from beyond its machine.",
                }
            },
        },
    }


def _operation(route: Route) -> Json:
    if route.protocol is not None:
        return _prediction(route, route.protocol)
    described = _OPERATIONS[route.endpoint]
    content: Json = {"schema": reference_to(described.schema)} if described.schema else {}
    operation: Json = {
        "operationId": _identifier(route),
        "summary": described.summary,
        "parameters": _parameters(route),
        "responses": {
            "200": {"description": "As asked.", "content": {described.content_type: content}},
            **_errors(route, described.errors),
        },
    }
    if route.open:
        operation["security"] = [{}]
    return operation


def _prediction(route: Route, protocol: PredictionProtocol) -> Json:
    described = protocol.description
    requests: Json = {"application/json": {"schema": reference_to(described.request), "example": described.example}}
    answers: Json = {"application/json": {"schema": reference_to(described.response)}}
    parameters = _parameters(route)
    if described.binary:
        requests["application/octet-stream"] = {}
        answers["application/octet-stream"] = {}
        parameters.append(_BINARY)
    return {
        "operationId": _identifier(route),
        "summary": described.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "As asked.", "content": answers},
            **_errors(route, _OF_PREDICTIONS),
        },
        "requestBody": {"required": True, "content": requests},
    }


def _errors(route: Route, further: tuple[int, ...]) -> Json:
    schema = reference_to("Error")
    if route.protocol is not None and route.protocol.description.error:
        # Requests that are refused before their path is known have the common shape.
        schema = {"anyOf": [schema, reference_to(route.protocol.description.error)]}
    return {
        str(status): {
            "description": ERRORS[status],
            "content": {"application/json": {"schema": schema}},
            **({"headers": _RETRY} if status in (429, 503) else {}),
        }
        for status in sorted({*_ALWAYS, *further})
    }


_RETRY: Json = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}


def _parameters(route: Route) -> list[Json]:
    named_in_path = [name for name in ("model", "version") if f"{{{name}}}" in route.template]
    return [{"$ref": f"#/components/parameters/{name}"} for name in named_in_path]


def _model_parameter(names: tuple[str, ...]) -> Json:
    return {
        "name": "model",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "enum": list(names)} if names else {"type": "string"},
        "description": "Name of a model or a split.",
    }


def _options(route: Route) -> Json:
    return {
        "operationId": f"options_{_identifier(route)}",
        "summary": "Methods that this path answers",
        "parameters": _parameters(route),
        "responses": {
            "204": {
                "description": "`Allow` names them.",
                "headers": {"Allow": {"required": True, "schema": {"type": "string"}}},
            },
            **_errors(route, (404,)),
        },
    }


def _head(route: Route, operation: Json) -> Json:
    responses = {status: {"description": answer["description"]} for status, answer in operation["responses"].items()}
    return {
        **operation,
        "operationId": f"head_{_identifier(route)}",
        "summary": f"{operation['summary']}; without the body",
        "responses": responses,
    }


def _identifier(route: Route) -> str:
    words = [word.strip("{}") for word in route.template.split("/") if word]
    return "_".join([route.method.lower(), *words]).replace(".", "_")
