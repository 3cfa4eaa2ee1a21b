"""Rows as columns of the Open Inference Protocol: types, gaps, lists; the same values in JSON, binary and gRPC."""

from __future__ import annotations

import json

import numpy as np
import pytest

from clickline import PeerError
from clickline.client.payloads import (
    binary_infer_body,
    columns_of,
    infer_body,
    infer_request,
    read_infer,
    read_json_rows,
)
from support.doubles.predictor_double import texts


def column(*values: object, nulls: bool = False) -> tuple[str, list[int], list[object]]:
    rows = [{} if value is ... else {"x": value} for value in values]
    found = columns_of(rows if any(rows) else [{"x": None}], nulls=nulls)[0]
    return found.datatype, found.shape, found.values


def test_numbers_stay_numbers_and_text_text() -> None:
    assert column(1, -5) == ("INT64", [2], [1, -5])
    assert column(1.5, 2.0) == ("FP64", [2], [1.5, 2.0])
    assert column("a", "ü") == ("BYTES", [2], ["a", "ü"])
    assert column(True, False) == ("BOOL", [2], [True, False])
    assert column(np.float32(0.5), np.float64(1)) == ("FP64", [2], [0.5, 1.0])


def test_what_no_number_type_holds_is_text_that_means_the_same() -> None:
    assert column(1, "a", 2.5, True) == ("BYTES", [4], ["1", "a", "2.5", "1"])
    assert column(2**64 - 1, 1) == ("BYTES", [2], ["18446744073709551615", "1"])
    assert column(1, 2.5) == ("BYTES", [2], ["1", "2.5"])  # as a float, 1 might not be the category 1


def test_gaps_are_empty_text_or_null() -> None:
    assert column(1, None, ...) == ("BYTES", [3], ["1", "", ""])
    assert column(1, None, ..., nulls=True) == ("INT64", [3], [1, None, None])
    assert column("a", None, nulls=True) == ("BYTES", [2], ["a", None])
    assert column(float("nan"), "a") == ("BYTES", [2], ["", "a"])


def test_lists_are_filled_up_to_the_longest() -> None:
    assert column(["a", "b"], ["c"], "d", ...) == ("BYTES", [4, 2], ["a", "b", "c", "", "d", "", "", ""])
    assert column([1, 2], (3, 4)) == ("INT64", [2, 2], [1, 2, 3, 4])
    assert column([], None) == ("BYTES", [2, 1], ["", ""])


def test_json_and_binary_and_grpc_hold_the_same() -> None:
    rows = [{"a": "x", "b": 1, "c": 0.5}, {"a": "längeres", "b": -(2**62), "c": 1e300}]
    head = json.loads(infer_body(rows, key=5))
    assert head["parameters"] == {"key": 5}
    body, length = binary_infer_body(rows)
    described, at = json.loads(body[:length]), length
    request = infer_request(rows, model="ctr", version=3)
    assert (request.model_name, request.model_version) == ("ctr", "3")
    assert described["parameters"] == {"binary_data_output": True}
    for number, one in enumerate(described["inputs"]):
        raw = body[at : at + one["parameters"]["binary_data_size"]]
        at += len(raw)
        assert request.raw_input_contents[number] == raw
        same, typed = head["inputs"][number], request.inputs[number]
        assert (one["name"], one["datatype"], one["shape"]) == (same["name"], same["datatype"], same["shape"])
        assert (typed.name, typed.datatype, list(typed.shape)) == (one["name"], one["datatype"], one["shape"])
        kinds = {"INT64": "<i8", "FP64": "<f8"}
        values = texts(raw) if one["datatype"] == "BYTES" else np.frombuffer(raw, kinds[one["datatype"]]).tolist()
        assert values == same["data"]
    assert at == len(body)


def test_an_answer_whose_numbers_do_not_fit_its_shape_is_none() -> None:
    said = {"model_name": "m", "model_version": "3", "outputs": [{"name": "probability", "shape": [2, 1], "data": [1]}]}
    with pytest.raises(PeerError, match=r"1 probabilities, but its shape is \[2, 1\]"):
        read_infer(json.dumps(said).encode())
    said["outputs"] = []
    with pytest.raises(PeerError, match="not a prediction"):
        read_infer(json.dumps(said).encode())
    with pytest.raises(PeerError, match="not a prediction"):
        read_json_rows(b'{"predictions":["a"],"version":1}')
