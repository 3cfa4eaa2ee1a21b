"""Answers as each protocol wants them, and what a model says of itself."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from clickline.client.payloads import read_infer, read_json_rows
from clickline.compat.elasticctr import elasticctr_protocol
from clickline.compat.paddle_serving import general_model_service
from clickline.net.request_errors import refuse
from clickline.serve.http.http_messages import error_response
from clickline.serve.prediction import PredictionResult
from clickline.serve.protocols import json_rows, open_inference
from clickline.serve.protocols.json_rows import sticky_key
from clickline.serve.protocols.open_inference import decode, encode, model_metadata
from support.serving.request_bodies import schema_of

P = np.array([[0.1], [0.75], [1e-7]], np.float32)
ANSWER = PredictionResult(P, 12, "ctr", "", ("click",))
TWO = PredictionResult(np.array([[0.1, 0.25], [0.5, 0.75]], np.float32), 3, "shop", "b", ("click", "buy"))
INPUT = {"name": "user", "datatype": "INT64", "shape": [1], "data": [1]}


def asking(**more):
    return decode(json.dumps({"inputs": [INPUT], **more}).encode(), None)


def test_plain_predictions_are_exact_in_few_digits():
    body = json_rows.encode(ANSWER, missing=3)
    assert body == b'{"predictions":[0.1,0.75,1e-07],"version":12,"model":"ctr","missing":3}'
    assert (np.array(json.loads(body)["predictions"], np.float32) == P[:, 0]).all()


def test_plain_predictions_of_several_labels_and_of_a_variant():
    body = json.loads(json_rows.encode(TWO))
    assert body["variant"] == "b"
    assert body["predictions"][1] == {"click": 0.5, "buy": 0.75}


def test_infer_answers_as_json():
    body, length = encode(ANSWER, asking(id="q1"))
    assert length is None
    assert json.loads(body) == {
        "model_name": "ctr",
        "model_version": "12",
        "id": "q1",
        "parameters": {"version": 12, "tag": ""},
        "outputs": [{"name": "probability", "datatype": "FP32", "shape": [3, 1], "data": [0.1, 0.75, 1e-07]}],
    }
    assert "id" not in json.loads(encode(TWO, asking())[0])


@pytest.mark.parametrize(
    ("more", "binary"),
    [
        ({}, False),
        ({"parameters": {"binary_data_output": True}}, True),
        ({"outputs": [{"name": "probability"}]}, False),
        ({"outputs": [{"name": "probability", "parameters": {"binary_data": True}}]}, True),
        ({"outputs": [{"name": "probability"}], "parameters": {"binary_data_output": True}}, True),
        (
            {
                "outputs": [{"name": "probability", "parameters": {"binary_data": False}}],
                "parameters": {"binary_data_output": True},
            },
            False,
        ),
    ],
)
def test_infer_answers_are_binary_if_asked_for(more, binary):
    request = asking(**more)
    assert request.binary_output is binary
    body, length = encode(TWO, request)
    assert (length is not None) is binary
    if binary:
        output = json.loads(body[:length])["outputs"][0]
        assert output["parameters"] == {"binary_data_size": 16}
        assert output["shape"] == [2, 2]
        assert (np.frombuffer(body[length:], "<f4").reshape(2, 2) == TWO.probability).all()


def test_a_prediction_of_a_number_is_called_a_value():
    stars = PredictionResult(np.array([[3.5]], np.float32), 2, "stars", "", ("rating",), "value")
    plain = json_rows.encode(stars)
    assert json.loads(plain)["output"] == "value"
    for prediction in (read_json_rows(plain), read_infer(encode(stars, asking())[0])):
        assert (prediction.output, prediction.probabilities) == ("value", [3.5])
    # Programs that ask for it by the usual name get it by that name.
    assert (
        json.loads(encode(stars, asking(outputs=[{"name": "probability"}]))[0])["outputs"][0]["name"] == "probability"
    )
    rated = replace(schema_of(slots=["user"]), loss="squared")
    assert model_metadata(SimpleNamespace(schema=rated), "stars", [2])["outputs"][0]["name"] == "value"


def test_elastic_answers():
    body = json.loads(elasticctr_protocol.encode(ANSWER))
    assert (body["err_code"], body["err_msg"]) == (0, "")
    assert [p["prob0"] + p["prob1"] for p in body["predictions"]] == [1.0] * 3
    assert body["predictions"][1] == {"prob0": 0.25, "prob1": 0.75}
    failed = json.loads(elasticctr_protocol.encode_error(refuse("malformed", "Sample size invalid.")))
    assert failed == {"predictions": [], "err_code": -1, "err_msg": "Sample size invalid."}
    failed = json.loads(elasticctr_protocol.encode_error(refuse("rows_unavailable", "no replica")))
    assert failed["err_msg"] == "Query cube for embeddings error"


def test_general_answers():
    body = json.loads(general_model_service.encode(TWO, log_id=general_model_service.log_id_of(b'{"log_id": 77}')))
    tensor = body["outputs"][0]["tensor"][0]
    assert tensor["float_data"] == [0.1, 0.25, 0.5, 0.75]
    assert (tensor["shape"], tensor["elem_type"], tensor["alias_name"]) == ([2, 2], 1, "probability")
    assert (body["err_no"], body["log_id"], body["tag"], body["version"]) == (0, 77, "b", 3)
    assert body["outputs"][0]["engine_name"] == "shop"
    failed = json.loads(general_model_service.encode_error(refuse("too_large", "too much"), log_id=5))
    assert (failed["err_no"], failed["err_msg"], failed["log_id"], failed["outputs"]) == (413, "too much", 5, [])
    assert [general_model_service.log_id_of(body) for body in (b"{}", b'{"log_id": "x"}', b'{"log_id": -1}')] == [
        0,
        0,
        0,
    ]


def test_errors_say_what_and_why():
    body = json.loads(error_response(refuse("not_finite", 'a "quoted" thing')).body)
    assert body == {"error": 'a "quoted" thing', "reason": "not_finite"}


def test_the_key_that_variants_stick_to():
    assert sticky_key(b'{"instances": [{"key": 1}], "key": "user-7"}') == "user-7"
    assert sticky_key(b'{"key": 7}') == "7"
    assert sticky_key(b'{"instances": [{"key": 1}]}') is None
    assert sticky_key(b"{") is None


def test_metadata_names_each_column_once():
    loaded = SimpleNamespace(schema=schema_of("criteo"))
    told = model_metadata(loaded, "ctr", [11, 12])
    assert (told["name"], told["versions"]) == ("ctr", ["11", "12"])
    assert len(told["inputs"]) == 39
    assert told["inputs"][0] == {"name": "C1", "datatype": "BYTES", "shape": [-1]}
    assert told["outputs"] == [{"name": "probability", "datatype": "FP32", "shape": [-1, 1]}]
    schema = schema_of("slots", labels=["a", "b"], slots=["s"], dense=["d", {"name": "v", "size": 3}])
    told = model_metadata(SimpleNamespace(schema=schema), "m", [1])
    assert told["inputs"] == [
        {"name": "s", "datatype": "BYTES", "shape": [-1, -1]},
        {"name": "d", "datatype": "FP32", "shape": [-1]},
        {"name": "v", "datatype": "FP32", "shape": [-1, 3]},
    ]
    assert told["outputs"][0]["shape"] == [-1, 2]
    assert open_inference.server_metadata()["extensions"] == ["binary_tensor_data"]
