"""The OpenAPI description of the server.

Every status that a path can answer with is listed, those of broken or impatient clients included.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from clickline import __version__
from clickline.serve.http.routes import ROUTES, Route
from clickline.serve.openapi.json_schemas import SCHEMAS, Json, named

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
_VERSION = {
    "name": "version",
    "in": "path",
    "required": True,
    "schema": {"type": "integer", "minimum": 1},
    "description": "One of the versions that are loaded.",
}
_BINARY = {
    "name": "Inference-Header-Content-Length",
    "in": "header",
    "required": False,
    "schema": {"type": "integer", "minimum": 0},
    "description": "Length of the JSON at the start of the body, where binary tensors follow it.",
}
# endpoint: summary, schema of the request, its example, content type and schema of the answer, further errors
_ENDPOINTS: dict[str, tuple[str, str, Any, str, str, tuple[int, ...]]] = {
    "server_metadata": ("The server", "", None, "application/json", "ServerMetadata", ()),
    "live": ("Whether the process lives", "", None, "application/json", "Live", ()),
    "ready": ("Whether every model has a complete version", "", None, "application/json", "Ready", (503,)),
    "model_metadata": ("A model's inputs and outputs", "", None, "application/json", "ModelMetadata", (404, 503)),
    "model_ready": ("Whether a model can answer", "", None, "application/json", "ModelReady", (404, 503)),
    "infer": (
        "Predict, Open Inference Protocol v2",
        "InferRequest",
        {
            "inputs": [
                {"name": "C1", "datatype": "BYTES", "shape": [2], "data": ["68fd1e64", "05db9164"]},
                {"name": "I1", "datatype": "FP32", "shape": [2], "data": [3, 0]},
            ]
        },
        "application/json",
        "InferResponse",
        _OF_PREDICTIONS,
    ),
    "predict": (
        "Predict, from rows of raw values",
        "Instances",
        {"instances": [{"C1": "68fd1e64", "I1": 3}, {"C1": "05db9164"}]},
        "application/json",
        "Predictions",
        _OF_PREDICTIONS,
    ),
    "elastic": (
        "Predict, in ElasticCTR's shape",
        "ElasticRequest",
        {"instances": [{"slots": [{"slot_name": "C1", "feasigns": [6571]}]}]},
        "application/json",
        "ElasticResponse",
        _OF_PREDICTIONS,
    ),
    "general": (
        "Predict, in the shape of the general model service",
        "GeneralRequest",
        {"tensor": [{"name": "I1", "alias_name": "I1", "float_data": [3.0], "elem_type": 1, "shape": [1, 1]}]},
        "application/json",
        "GeneralResponse",
        _OF_PREDICTIONS,
    ),
    "metrics": ("Counters of all workers, for Prometheus", "", None, "text/plain", "", ()),
    "status": ("Models, their versions, this worker", "", None, "application/json", "Status", ()),
    "openapi": ("This description", "", None, "application/json", "", ()),
    "docs": ("This description, for people", "", None, "text/html", "", ()),
}
_OLDER = {"elastic": "ElasticResponse", "general": "GeneralResponse"}


@cache
def description(models: tuple[str, ...] = ()) -> Json:
    """The document; with the names that can be asked for, if they are given."""
    paths: Json = {}
    for route in ROUTES:
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
            "parameters": {"model": _model(models), "version": _VERSION},
            "schemas": SCHEMAS,
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
    summary, asked, example, kind, answered, further = _ENDPOINTS[route.endpoint]
    content: Json = {"schema": named(answered)} if answered else {}
    if route.endpoint == "infer":
        answers: Json = {kind: content, "application/octet-stream": {}}
    else:
        answers = {kind: content}
    found: Json = {
        "operationId": _identifier(route),
        "summary": summary,
        "parameters": _parameters(route),
        "responses": {"200": {"description": "As asked.", "content": answers}, **_errors(route, further)},
    }
    if asked:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": named(asked), "example": example}},
        }
        if route.endpoint == "infer":
            found["requestBody"]["content"]["application/octet-stream"] = {}
            found["parameters"] = [*found["parameters"], _BINARY]
    if route.open:
        found["security"] = [{}]
    return found


def _errors(route: Route, further: tuple[int, ...]) -> Json:
    schemas = [named("Error")]
    if route.endpoint in _OLDER:  # what is refused before the path is known has the usual shape
        schemas.append(named(_OLDER[route.endpoint]))
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
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


def _model(names: tuple[str, ...]) -> Json:
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
