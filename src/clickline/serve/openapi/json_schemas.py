"""JSON schemas of everything that is sent and answered, by name, for the OpenAPI page.

They are written as data, by hand, and not generated from the types of the code: most bodies are read by native code and
have no Python type, and a schema promises less than a type says (descriptions, ranges, properties that may be added). A
test sends requests drawn from the page and holds the server to it.
"""

from __future__ import annotations

from typing import Any

from clickline.net.request_errors import REASONS

Json = dict[str, Any]
DATATYPES = [
    *("BYTES", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    *("FP16", "FP32", "FP64"),
]


def reference_to(name: str) -> Json:
    """A reference to a schema of this page."""
    return {"$ref": f"#/components/schemas/{name}"}


def object_of(properties: Json, *, required: list[str] | None = None, text: str = "", closed: bool = False) -> Json:
    """The schema of an object; all properties are required unless `required` names some, and others may be there unless
    it is `closed`."""
    schema: Json = {"type": "object", "properties": properties}
    schema["required"] = list(properties) if required is None else required
    if text:
        schema["description"] = text
    if closed:
        schema["additionalProperties"] = False
    return schema


def array_of(items: Json, **more: Any) -> Json:
    return {"type": "array", "items": items, **more}


TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "number"}
INTEGER: Json = {"type": "integer"}
_ANY: Json = {}
_CELL: Json = {"type": ["string", "number", "boolean", "null"]}
_PROBABILITY: Json = {"type": "number", "minimum": 0, "maximum": 1}
_KEY: Json = {
    "type": ["string", "integer"],
    "description": "Requests with the same key get the same variant, where traffic is split and the split is sticky.",
}

SCHEMAS: Json = {
    "Error": object_of(
        {
            "error": {**TEXT, "description": "What is wrong, for people: all of it, if there are several mistakes."},
            "reason": {"enum": sorted(REASONS), "description": "Of the first mistake."},
            "mistakes": array_of(
                object_of({"reason": {"enum": sorted(REASONS)}, "error": TEXT}, closed=True),
                description="Each mistake, at most ten, if there are several.",
            ),
        },
        required=["error", "reason"],
        text="Why a request was not answered.",
        closed=True,
    ),
    "Value": {
        "description": "A raw value, as it stands in the log. Lists are for columns with several values.",
        "anyOf": [_CELL, array_of(_CELL)],
    },
    "Instances": object_of(
        {
            "instances": array_of({"type": "object", "additionalProperties": reference_to("Value")}, minItems=1),
            "key": _KEY,
        },
        required=["instances"],
        text="Rows, each a column → value. Columns that are left out count as missing; unknown ones are refused.",
        closed=True,
    ),
    "Predictions": object_of(
        {
            "predictions": array_of(
                {"anyOf": [_PROBABILITY, {"type": "object", "additionalProperties": _PROBABILITY}]},
                description="One for each row; objects by label where the model has several.",
            ),
            "version": {**INTEGER, "description": "The version that made all of them."},
            "model": TEXT,
            "variant": {**TEXT, "description": "Tag of the variant, where traffic is split."},
            "output": {**TEXT, "description": "What predictions are, if not probabilities: value."},
            "missing": {**INTEGER, "minimum": 0, "description": "Values that were left out and filled in."},
        },
        required=["predictions", "version", "model"],
    ),
    "Live": object_of({"live": {"const": True}}, closed=True),
    "Ready": object_of({"ready": {"const": True}}, closed=True),
    "ModelReady": object_of({"name": TEXT, "ready": {"const": True}}, closed=True),
    "ServerMetadata": object_of({"name": TEXT, "version": TEXT, "extensions": array_of(TEXT)}),
    "TensorMetadata": object_of({"name": TEXT, "datatype": {"enum": DATATYPES}, "shape": array_of(INTEGER)}),
    "ModelMetadata": object_of(
        {
            "name": TEXT,
            "versions": array_of(TEXT),
            "platform": TEXT,
            "inputs": array_of(reference_to("TensorMetadata")),
            "outputs": array_of(reference_to("TensorMetadata")),
        },
        required=["name", "platform", "inputs", "outputs"],
    ),
    "InferRequest": object_of(
        {
            "id": TEXT,
            "parameters": {
                "type": "object",
                "properties": {"binary_data_output": {"type": "boolean"}, "key": _KEY},
            },
            "inputs": array_of(
                object_of(
                    {
                        "name": {**TEXT, "description": "A column."},
                        "shape": array_of({**INTEGER, "minimum": 0}, minItems=1, maxItems=2),
                        "datatype": {"enum": DATATYPES},
                        "parameters": {"type": "object", "properties": {"binary_data_size": {**INTEGER, "minimum": 0}}},
                        "data": array_of(_ANY),
                    },
                    required=["name", "shape", "datatype"],
                ),
                minItems=1,
            ),
            "outputs": array_of(object_of({"name": TEXT, "parameters": {"type": "object"}}, required=["name"])),
        },
        required=["inputs"],
        text="Open Inference Protocol v2. Every input is a column, its shape [rows] or [rows, values].",
    ),
    "InferResponse": object_of(
        {
            "model_name": TEXT,
            "model_version": TEXT,
            "id": TEXT,
            "parameters": {"type": "object", "properties": {"version": INTEGER, "tag": TEXT}},
            "outputs": array_of(
                object_of(
                    {
                        "name": TEXT,
                        "datatype": {"enum": DATATYPES},
                        "shape": array_of(INTEGER),
                        "parameters": {"type": "object"},
                        "data": array_of(_PROBABILITY),
                    },
                    required=["name", "datatype", "shape"],
                )
            ),
        },
        required=["model_name", "model_version", "outputs"],
    ),
    "Status": object_of(
        {
            "ready": {"type": "boolean"},
            "default": {"type": ["string", "null"]},
            "models": {"type": "object", "additionalProperties": {"type": "object"}},
            "worker": object_of(
                {
                    "pid": INTEGER,
                    "since": NUMBER,
                    "connections": INTEGER,
                    "body_bytes": INTEGER,
                    "draining": {"type": "boolean"},
                },
                text="The worker that answers; the others are much alike.",
            ),
        },
        required=["models", "worker"],
    ),
}
