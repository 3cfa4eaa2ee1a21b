"""Everything that can be wrong with a request, and the words it is refused with."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from clickline.compat.paddle_serving.general_model_service import GeneralModelService
from clickline.net.request_errors import RequestError
from clickline.serve.prediction import Tensor
from clickline.serve.predictor.feature_reader import FeatureReader
from clickline.serve.protocols.open_inference import decode
from clickline.serve.protocols.prediction_protocol import OpenedRequest
from support.serving.request_bodies import body_of, infer_body, schema_of

SCHEMA = schema_of(
    slots=["user", {"name": "price", "bucket": "log"}],
    dense=["price", {"name": "vector", "size": 2, "normalise": "none"}],
)
READER = FeatureReader(SCHEMA)


def refused(call, *args, **more) -> RequestError:
    with pytest.raises(RequestError) as caught:
        call(*args, **more)
    return caught.value


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    [
        (b"", "malformed", "The body is not valid JSON: it ends where a value was expected, at byte 0"),
        (b'{"instances": [{"user": "a" "b"}]}', "malformed", "expected ',' or '}', got '\"' at byte 28"),
        (b'{"instances":\n [{"user": \xff}]}', "malformed", "not UTF-8 at byte 25 (line 2, column 12)"),
        (b'{"instances": [{"user": ' + b"[" * 100_000, "wrong_shape", "'user' holds a list within a list"),
        (b'{"key": ' + b"[" * 100_000, "malformed", "nested deeper than 64"),
        (b"[]", "malformed", "The body must be an object like"),
        (b"{}", "malformed", 'The body has no "instances"'),
        (b'{"instances": "a"}', "malformed", '"instances" must be a list of objects, got a text'),
        (b'{"instances": []}', "malformed", '"instances" is empty'),
        (b'{"model": "b", "instances": [{}]}', "malformed", "a member 'model'; known are"),
        (b'{"instances": [{}, []]}', "wrong_type", "instances[1]: an instance must be an object"),
        (b'{"instances": [{"usr": 1}]}', "unknown_feature", "no feature 'usr'; did you mean user?"),
        (b'{"instances": [{"xyz": 1}]}', "unknown_feature", "'xyz'; known features: user, price, vector"),
        (b'{"instances": [{"\xff": 1}]}', "malformed", "not UTF-8"),
        (
            b'{"instances": [{}, {"user": {}}]}',
            "wrong_type",
            "instances[1]: 'user' must be a text, a number, a boolean",
        ),
        (b'{"instances": [{"price": "cheap"}]}', "wrong_type", "must be a finite number (bucket: log), got 'cheap'"),
        (b'{"instances": [{"vector": [1, "x"]}]}', "wrong_type", "'vector' must be a finite number, got 'x'"),
        (b'{"instances": [{"vector": [1]}]}', "wrong_shape", "instances[0]: dense feature 'vector' needs 2 numbers"),
        (b'{"instances": [{"user": NaN}]}', "not_finite", "'user' must be a finite number, got 'NaN'"),
        (b'{"instances": [{"price": Infinity}]}', "not_finite", "got 'Infinity'"),
        (b'{"instances": [{"price": 1e400}]}', "not_finite", "got '1e400'"),
        (b'{"instances": [{"user": 1, "user": 1}]}', "malformed", "'user' is given more than once"),
        (b'{"instances": [{"user": 99999999999999999999}]}', "wrong_type", "more than 64 bits"),
        (b'{"instances": [{}, {}, {}, {}]}', "too_large", "More than 3 instances"),
        (b'{"instances": [{"user": [' + b"1," * 65_536 + b"1]}]}", "too_large", "'user' holds more than 65536 values"),
    ],
)
def test_json(body, reason, message):
    error = refused(READER.from_json, body, most_rows=3)
    assert error.reason == reason
    assert message in str(error)
    assert error.status == (413 if reason == "too_large" else 400)


def test_all_mistakes_of_a_request_are_told_at_once():
    rows = [
        {"usr": 1, "user": {"a": [1]}, "price": "cheap"},
        {"usr": 2, "vector": [1]},
        {"user": "a", "vector": [1, 2]},
        {"user": [["x"], "y"], "vector": [1, "x", 2], "usr": 3},
        7,
    ]
    error = refused(READER.from_json, body_of(rows), most_rows=5)
    assert [(reason, message.partition(",")[0]) for reason, message in error.mistakes] == [
        ("unknown_feature", "instances[0]: there is no feature 'usr'; did you mean user?"),
        ("wrong_type", "instances[0]: 'user' must be a text"),
        ("wrong_type", "instances[0]: slot 'price' must be a finite number (bucket: log)"),
        ("wrong_shape", "instances[1]: dense feature 'vector' needs 2 numbers"),
        ("wrong_shape", "instances[3]: 'user' holds a list within a list; give its values in one list"),
        ("wrong_type", "instances[3]: dense feature 'vector' must be a finite number"),
        ("wrong_type", "instances[4]: an instance must be an object of features and values"),
    ]
    assert (error.reason, error.status) == ("unknown_feature", 400)
    assert str(error).startswith("7 mistakes: (1) instances[0]: there is no feature 'usr'")


def test_what_ends_the_reading_is_told_after_the_mistakes_before_it():
    error = refused(READER.from_json, b'{"instances": [{"usr": 1}, {"user": x}]}', most_rows=3)
    assert [reason for reason, _ in error.mistakes] == ["unknown_feature", "malformed"]
    error = refused(READER.from_json, body_of([{"usr": 1}] * 4), most_rows=3)
    assert [reason for reason, _ in error.mistakes] == ["unknown_feature", "too_large"]
    assert error.status == 400


def test_a_request_full_of_mistakes_is_not_read_to_its_end():
    error = refused(READER.from_json, body_of([{"price": "x"}] * 100)[:-2], most_rows=100)
    assert [message[:12] for _, message in error.mistakes] == [f"instances[{n}]" for n in range(10)]
    assert str(error).startswith("10 mistakes, and the rest was not checked: (1) ")


def test_one_bad_row_refuses_all_of_them():
    rows = [{"user": "a", "price": 1}] * 3
    assert len(READER.from_json(body_of(rows), most_rows=3).batch) == 3
    rows = [*rows[:2], {"user": "a", "price": "x"}]
    assert "instances[2]" in str(refused(READER.from_json, body_of(rows), most_rows=3))


def test_raw_keys_must_be_numbers():
    reader = FeatureReader(schema_of(slots=["s"], keys="raw"))
    assert reader.from_json(body_of([{"s": 2**64 - 1}]), most_rows=1).batch.keys.tolist() == [2**64 - 1]
    for value in (-1, 1.5, "x", 2**64, True):
        error = refused(reader.from_json, body_of([{"s": value}]), most_rows=1)
        assert error.reason == "wrong_type"
        assert "64 bits" in str(error)


def test_every_prefix_of_a_request_is_refused():
    body = body_of([{"user": "é\n", "price": -1.5e3, "vector": [1, 2]}, {"user": None}], key="k")
    assert len(READER.from_json(body, most_rows=2).batch) == 2
    for end in range(len(body)):
        assert refused(READER.from_json, body[:end], most_rows=2).reason == "malformed"


@pytest.mark.parametrize(
    ("tensors", "reason", "message"),
    [
        ([], "malformed", "A request needs at least one input"),
        ([Tensor("usr", "INT64", [1], [1])], "unknown_feature", "there is no feature 'usr'; did you mean user?"),
        ([Tensor("user", "INT64", [1], [1])] * 2, "malformed", "'user' is given more than once"),
        ([Tensor("user", "STRING", [1], [1])], "wrong_type", "known ones: BOOL, INT8"),
        ([Tensor("user", "INT64", [1, 1, 1], [1])], "wrong_shape", "got 3 dimensions"),
        ([Tensor("user", "INT64", [-1], [1])], "wrong_shape", "a size below 0"),
        ([Tensor("user", "INT64", [2], [1])], "wrong_shape", "needs 2 values by its shape, got 1"),
        (
            [Tensor("user", "INT64", [1], bytes(7))],
            "wrong_shape",
            "needs 8 bytes by its shape and datatype INT64, got 7",
        ),
        ([Tensor("user", "INT64", [1], [2**64])], "wrong_type", "more than 64 bits"),
        ([Tensor("user", "INT64", [1], ["1"])], "wrong_type", "of the datatype INT64, but holds a text"),
        ([Tensor("user", "INT64", [1], [{}])], "wrong_type", "holds a dict"),
        ([Tensor("user", "BYTES", [1], b"\x05\0\0\0abc")], "wrong_shape", "ends within a text"),
        ([Tensor("user", "BYTES", [1], b"\x01\0\0\0abc")], "wrong_shape", "2 bytes too many"),
        ([Tensor("user", "FP32", [1], [float("nan")])], "not_finite", "got 'nan'"),
        ([Tensor("user", "FP32", [1], np.array([np.inf], "<f4").tobytes())], "not_finite", "Row 0 of the inputs"),
        ([Tensor("price", "BYTES", [1], [b"x"])], "wrong_type", "must be a finite number (bucket: log), got 'x'"),
        ([Tensor("vector", "FP32", [1, 3], [1, 2, 3])], "wrong_shape", "needs 2 numbers, got 3"),
        ([Tensor("user", "INT64", [4], [1] * 4)], "too_large", "4 rows, but at most 3"),
        ([Tensor("user", "INT64", [1, 2**62], b"")], "too_large", "more than 65536 values in a row"),
        ([Tensor("user", "INT64", [2], [1, 2]), Tensor("price", "INT64", [1], [1])], "wrong_shape", "has 1 rows, but"),
        ([Tensor("user", "INT64", [2], [1, 2], [0, 3])], "wrong_shape", "needs 3 values"),
        ([Tensor("user", "INT64", [2], [1, 2], [0, 2, 1])], "wrong_shape", "not a list of growing positions"),
        ([Tensor("user", "INT64", [2], [1, 2], [1, 2])], "wrong_shape", "not a list of growing positions"),
    ],
)
def test_tensors(tensors, reason, message):
    error = refused(READER.from_tensors, tensors, most_rows=3)
    assert error.reason == reason
    assert message in str(error)


def test_all_mistakes_of_tensors_are_told_at_once():
    tensors = [
        Tensor("usr", "INT64", [2], [1, 2]),
        Tensor("price", "BYTES", [2], [b"1", b"x"]),
        Tensor("vector", "FP32", [2, 2], [1, float("inf"), 3, 4]),
        Tensor("user", "INT64", [2], ["1", 2]),
    ]
    error = refused(READER.from_tensors, tensors, most_rows=3)
    assert [reason for reason, _ in error.mistakes] == ["unknown_feature", "wrong_type", "not_finite", "wrong_type"]
    sizes = [Tensor("usr", "INT64", [2], [1, 2]), Tensor("user", "INT64", [3], [1]), Tensor("price", "INT64", [2], [1])]
    error = refused(READER.from_tensors, sizes, most_rows=3)
    assert [reason for reason, _ in error.mistakes] == ["unknown_feature", "wrong_shape", "wrong_shape"]


def test_binary_requests():
    good = [Tensor("user", "INT64", [2], np.arange(2, dtype="<i8").tobytes())]
    body, length = infer_body(good)
    assert len(READER.from_tensors(decode(body, length).inputs, most_rows=2).batch) == 2
    for given, message in [
        (None, "needs the header Inference-Header-Content-Length"),
        (length - 1, "it ends where"),
        (length + 1, "only 15 bytes are left"),
        (len(body) + 1, "but the body has only"),
        (-1, "must be at least 0"),
        (0, "it ends where a value was expected"),
    ]:
        error = refused(decode, body, given)
        assert error.reason == "malformed"
        assert message in str(error)
    assert "add up to 16" in str(refused(decode, body + b"x", length))
    assert "only 15 bytes are left" in str(refused(decode, body[:-1], length))
    header = body[:length]
    assert "Inference-Header-Content-Length" in str(refused(decode, header, None))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"inputs": []}, "at least one input"),
        ({"inputs": 3}, '"inputs" must be a list'),
        ({"id": 3}, "'id' of the request"),
        ({"outputs": {}}, "'outputs' of the request"),
        ({"outputs": [{"name": "score"}]}, "the only output is 'probability', but the request asks for 'score'"),
        ({"parameters": []}, "'parameters' of the request"),
    ],
)
def test_infer_requests(request_, message):
    body = {"inputs": [{"name": "user", "datatype": "INT64", "shape": [1], "data": [1]}]} | request_
    error = refused(decode, json.dumps(body).encode(), None)
    assert error.reason == "malformed"
    assert message in str(error)


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    [
        ({}, "malformed", "Sample size invalid"),
        ({"instances": []}, "malformed", "Sample size invalid"),
        ({"instances": [{}] * 4}, "too_large", "Sample size invalid: more than 3 instances"),
        (
            {"instances": [{"slots": []}, {"slots": [{"slot_name": "1", "feasigns": [1]}]}]},
            "wrong_shape",
            "Req intance has varying slot numbers",
        ),
        (
            {"instances": [{"slots": [{"slot_name": "9", "feasigns": [1]}]}]},
            "unknown_feature",
            "Req instance 0 has an outlier slot id: '9'",
        ),
        ({"instances": [{"slots": [{"feasigns": [1]}]}]}, "unknown_feature", "an outlier slot id: ''"),
        ({"instances": [{"slots": [{"slot_name": "1", "feasigns": ["x"]}]}]}, "wrong_type", "got 'x'"),
        ({"instances": [{"slots": [{"slot_name": "1", "feasigns": [[1]]}]}]}, "wrong_type", "got a list"),
        ({"instances": [{"slots": [{"slot_name": "1", "feasigns": 1}]}]}, "wrong_type", "must be a list, got a number"),
        ({"instances": [{"slots": [{"slot_name": "1"}, {"slot_name": "1"}]}]}, "malformed", "more than once"),
    ],
)
def test_feasigns(body, reason, message):
    reader = FeatureReader(schema_of("elasticctr", slots=["1", "2"]))
    error = refused(reader.from_feasigns, json.dumps(body).encode(), most_rows=3)
    assert error.reason == reason
    assert message in str(error)


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    [
        (b"[", "malformed", "not a request of GeneralModelService"),
        (b'{"tensor": ' + b"[" * 100_000, "malformed", "not a request of GeneralModelService"),
        (b'{"x": ' + b"[" * 100_000, "malformed", "not a request of GeneralModelService"),
        (b"{}", "malformed", "at least one input"),
        (
            b'{"tensor": [{"name": "user", "elem_type": 6}]}',
            "wrong_type",
            "elem_type 6; known ones: 0 (INT64), 1 (FP32)",
        ),
        (b'{"tensor": [{"name": "user", "int64_data": ["x"], "shape": [1]}]}', "wrong_type", "must be integers"),
        (b'{"tensor": [{"name": "user", "shape": [1]}]}', "wrong_shape", "needs 1 values"),
        (
            b'{"tensor": [{"name": "user", "int64_data": [1], "lod": [0, 99999999999999999999]}]}',
            "wrong_type",
            "64 bits",
        ),
        (b'{"tensor": [], "fetch_var_names": ["price"]}', "malformed", "no output 'price' to fetch"),
    ],
)
def test_general_requests(body, reason, message):
    protocol = GeneralModelService()
    error = refused(partial(protocol.read, OpenedRequest(body)), READER, most_rows=3)
    assert error.reason == reason
    assert message in str(error)
