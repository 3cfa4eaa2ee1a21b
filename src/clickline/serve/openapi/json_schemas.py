"""JSON schemas of everything that is sent and answered, by name, for the OpenAPI page.

Written as data, by hand: they say what is promised to clients, and a test holds the server to it.
"""

from __future__ import annotations

from typing import Any

from clickline.net.request_errors import REASONS

Json = dict[str, Any]
DATATYPES = [
    *("BYTES", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    *("FP16", "FP32", "FP64"),
]


def named(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: Json, *, required: list[str] | None = None, text: str = "", closed: bool = False) -> Json:
    found: Json = {"type": "object", "properties": properties}
    found["required"] = list(properties) if required is None else required
    if text:
        found["description"] = text
    if closed:
        found["additionalProperties"] = False
    return found


def _list(items: Json, **more: Any) -> Json:
    return {"type": "array", "items": items, **more}


_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "number"}
_WHOLE: Json = {"type": "integer"}
_ANY: Json = {}
_CELL: Json = {"type": ["string", "number", "boolean", "null"]}
_PROBABILITY: Json = {"type": "number", "minimum": 0, "maximum": 1}
_KEY: Json = {
    "type": ["string", "integer"],
    "description": "Requests with the same key get the same variant, where traffic is split and the split is sticky.",
}

SCHEMAS: Json = {
    "Error": _object(
        {
            "error": {**_TEXT, "description": "What is wrong, for people: all of it, if there are several mistakes."},
            "reason": {"enum": sorted(REASONS), "description": "Of the first mistake."},
            "mistakes": _list(
                _object({"reason": {"enum": sorted(REASONS)}, "error": _TEXT}, closed=True),
                description="Each mistake, at most ten, if there are several.",
            ),
        },
        required=["error", "reason"],
        text="Why a request was not answered.",
        closed=True,
    ),
    "Value": {
        "description": "A raw value, as it stands in the log. Lists are for columns with several values.",
        "anyOf": [_CELL, _list(_CELL)],
    },
    "Instances": _object(
        {
            "instances": _list({"type": "object", "additionalProperties": named("Value")}, minItems=1),
            "key": _KEY,
        },
        required=["instances"],
        text="Rows, each a column → value. Columns that are left out count as missing; unknown ones are refused.",
        closed=True,
    ),
    "Predictions": _object(
        {
            "predictions": _list(
                {"anyOf": [_PROBABILITY, {"type": "object", "additionalProperties": _PROBABILITY}]},
                description="One for each row; objects by label where the model has several.",
            ),
            "version": {**_WHOLE, "description": "The version that made all of them."},
            "model": _TEXT,
            "variant": {**_TEXT, "description": "Tag of the variant, where traffic is split."},
            "missing": {**_WHOLE, "minimum": 0, "description": "Values that were left out and filled in."},
        },
        required=["predictions", "version", "model"],
    ),
    "Live": _object({"live": {"const": True}}, closed=True),
    "Ready": _object({"ready": {"const": True}}, closed=True),
    "ModelReady": _object({"name": _TEXT, "ready": {"const": True}}, closed=True),
    "ServerMetadata": _object({"name": _TEXT, "version": _TEXT, "extensions": _list(_TEXT)}),
    "TensorMetadata": _object({"name": _TEXT, "datatype": {"enum": DATATYPES}, "shape": _list(_WHOLE)}),
    "ModelMetadata": _object(
        {
            "name": _TEXT,
            "versions": _list(_TEXT),
            "platform": _TEXT,
            "inputs": _list(named("TensorMetadata")),
            "outputs": _list(named("TensorMetadata")),
        },
        required=["name", "platform", "inputs", "outputs"],
    ),
    "InferRequest": _object(
        {
            "id": _TEXT,
            "parameters": {
                "type": "object",
                "properties": {"binary_data_output": {"type": "boolean"}, "key": _KEY},
            },
            "inputs": _list(
                _object(
                    {
                        "name": {**_TEXT, "description": "A column."},
                        "shape": _list({**_WHOLE, "minimum": 0}, minItems=1, maxItems=2),
                        "datatype": {"enum": DATATYPES},
                        "parameters": {"type": "object", "properties": {"binary_data_size": {**_WHOLE, "minimum": 0}}},
                        "data": _list(_ANY),
                    },
                    required=["name", "shape", "datatype"],
                ),
                minItems=1,
            ),
            "outputs": _list(_object({"name": _TEXT, "parameters": {"type": "object"}}, required=["name"])),
        },
        required=["inputs"],
        text="Open Inference Protocol v2. Every input is a column, its shape [rows] or [rows, values].",
    ),
    "InferResponse": _object(
        {
            "model_name": _TEXT,
            "model_version": _TEXT,
            "id": _TEXT,
            "parameters": {"type": "object", "properties": {"version": _WHOLE, "tag": _TEXT}},
            "outputs": _list(
                _object(
                    {
                        "name": _TEXT,
                        "datatype": {"enum": DATATYPES},
                        "shape": _list(_WHOLE),
                        "parameters": {"type": "object"},
                        "data": _list(_PROBABILITY),
                    },
                    required=["name", "datatype", "shape"],
                )
            ),
        },
        required=["model_name", "model_version", "outputs"],
    ),
    "ElasticRequest": _object(
        {
            "instances": _list(
                _object(
                    {"slots": _list(_object({"slot_name": _TEXT, "feasigns": _list({"type": ["integer", "string"]})}))}
                ),
                minItems=1,
            )
        },
        text="ElasticCTR's shape: keys that are hashed already.",
    ),
    "ElasticResponse": _object(
        {
            "predictions": _list(_object({"prob0": _NUMBER, "prob1": _NUMBER})),
            "err_code": {**_WHOLE, "description": "0, or -1 when err_msg says what is wrong."},
            "err_msg": _TEXT,
        },
        required=["err_code"],
    ),
    "GeneralRequest": _object(
        {
            "tensor": _list({"type": "object"}, minItems=1),
            "fetch_var_names": _list(_TEXT),
            "profile_server": {"type": "boolean"},
            "log_id": _WHOLE,
        },
        required=["tensor"],
        text="The shape of Paddle's general model service.",
    ),
    "GeneralResponse": _object(
        {
            "outputs": _list(_object({"tensor": _list({"type": "object"}), "engine_name": _TEXT})),
            "err_no": {**_WHOLE, "description": "0, or another number when err_msg says what is wrong."},
            "err_msg": _TEXT,
        },
        required=["err_no", "err_msg"],
    ),
    "Status": _object(
        {
            "ready": {"type": "boolean"},
            "default": {"type": ["string", "null"]},
            "models": {"type": "object", "additionalProperties": {"type": "object"}},
            "worker": _object(
                {
                    "pid": _WHOLE,
                    "since": _NUMBER,
                    "connections": _WHOLE,
                    "body_bytes": _WHOLE,
                    "draining": {"type": "boolean"},
                },
                text="The worker that answers; the others are much alike.",
            ),
        },
        required=["models", "worker"],
    ),
}
