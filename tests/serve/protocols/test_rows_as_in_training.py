"""A row that is asked about has the keys and numbers that it would have had in a log."""

from __future__ import annotations

import csv
import io
import json
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickline._native import feature_key
from clickline.compat.paddle_serving.general_model_service import GeneralModelService
from clickline.data.schema import INTEGERS
from clickline.data.sources.arrow import parse_table
from clickline.net.request_errors import RequestError
from clickline.serve.prediction import Tensor
from clickline.serve.predictor.feature_reader import FeatureReader
from clickline.serve.protocols.open_inference import decode
from clickline.serve.protocols.prediction_protocol import OpenedRequest
from support.serving.request_bodies import (
    assert_same_rows,
    body_of,
    criteo_rows,
    criteo_text,
    infer_body,
    packed_texts,
    schema_of,
    text_of,
    text_tensors,
)

CRITEO = schema_of("criteo")


@pytest.mark.parametrize("integers", ["dense", "slots", "both"])
def test_criteo_rows(integers):
    schema = schema_of("criteo", integers=integers)
    reader, rows = FeatureReader(schema), criteo_rows(100)
    expected = schema.parser().parse(criteo_text(rows))
    assert_same_rows(reader.from_json(body_of(rows), most_rows=100), expected)
    as_texts = [{name: text_of(value) for name, value in row.items()} for row in rows]
    assert_same_rows(reader.from_json(body_of(as_texts), most_rows=100), expected)
    without_missing = [{name: value for name, value in row.items() if value is not None} for row in rows]
    assert_same_rows(reader.from_json(body_of(without_missing), most_rows=100), expected)
    in_lists = [{name: [value] for name, value in row.items()} for row in rows]
    assert_same_rows(reader.from_json(body_of(in_lists), most_rows=100), expected)
    tensors = text_tensors(rows, reader.columns)
    assert_same_rows(reader.from_tensors(tensors, most_rows=100), expected)
    random.Random(1).shuffle(tensors)
    body, length = infer_body(tensors)
    assert_same_rows(reader.from_tensors(decode(body, length).inputs, most_rows=100), expected)


@pytest.mark.parametrize("integers", ["dense", "slots", "both"])
def test_missing_values_are_counted_by_column(integers):
    """An integer that is read as a slot and as a dense feature is one column, which a request has or lacks."""
    reader = FeatureReader(schema_of("criteo", integers=integers))
    assert reader.from_json(body_of([{"C1": "68fd1e64", "I1": 3}]), most_rows=1).missing == 37
    rows = criteo_rows(100)
    lacking = sum(value is None for row in rows for value in row.values())
    assert reader.from_json(body_of(rows), most_rows=100).missing == lacking
    assert reader.from_tensors(text_tensors(rows, reader.columns), most_rows=100).missing == lacking


def test_numbers_in_every_datatype():
    rows = [{name: (i * 7 + n) % 100 for n, name in enumerate(INTEGERS)} for i in range(16)]
    expected = CRITEO.parser().parse(criteo_text(rows))
    reader = FeatureReader(CRITEO)
    kinds = ["<i1", "<i2", "<i4", "<i8", "<u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8"]
    names = ["INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64"]
    for kind, datatype in zip(kinds, names, strict=True):
        arrays = {name: np.array([row[name] for row in rows], kind) for name in INTEGERS}
        packed = [Tensor(name, datatype, array.shape, array.tobytes()) for name, array in arrays.items()]
        assert_same_rows(reader.from_tensors(packed, most_rows=16), expected)
        listed = [Tensor(name, datatype, [16, 1], array.tolist()) for name, array in arrays.items()]
        assert_same_rows(reader.from_tensors(listed, most_rows=16), expected)
        inputs = [{"name": t.name, "datatype": t.datatype, "shape": t.shape, "data": t.data} for t in listed]
        as_json = decode(json.dumps({"inputs": inputs}).encode(), None)
        assert_same_rows(reader.from_tensors(as_json.inputs, most_rows=16), expected)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("7", "7"),
        (7, "7"),
        (7.0, "7"),
        ("7.0", "7.0"),
        ("07", "07"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e22, "1e+22"),
        (2**63, str(2**63)),
        (-(2**63), str(-(2**63))),
        (True, "true"),
        ('quote " and \\ and \n and é and 😀', 'quote " and \\ and \n and é and 😀'),
        ("\0", "\0"),
        (None, ""),
        ("", ""),
        ([], ""),
        ([None, ""], ""),
    ],
)
def test_a_value_is_a_category_by_its_text(value, text):
    reader = FeatureReader(schema_of(slots=["s"]))
    for escaped in (True, False):
        body = json.dumps({"instances": [{"s": value}]}, ensure_ascii=escaped).encode()
        question = reader.from_json(body, most_rows=1)
        assert question.batch.keys.tolist() == [feature_key("s", text.encode())]
        assert question.missing == (text == "")


def test_csv_rows_with_separators():
    schema = schema_of(
        "csv",
        slots=["user", {"name": "tags", "separator": "|", "max_values": 3}, {"name": "price", "bucket": "log"}],
        dense=[{"name": "price", "normalise": "standard", "center": 1.5, "spread": 2.0, "missing": -1.0}],
        group="user",
    )
    chance = random.Random(2)
    columns = ["label", "user", "tags", "price"]
    rows = []
    for _ in range(200):
        tags = "|".join(chance.choice(["", "a", "bb", "c,c", 'd"d']) for _ in range(chance.randrange(6)))
        price = chance.choice([None, 0.5, 3, 1e10, -4.25])
        rows.append({"user": chance.choice(["u1", "ü2", None]), "tags": tags, "price": price, "label": 0})
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[text_of(row[name]) for name in columns] for row in rows])
    expected = schema.parser(columns=columns).parse(text.getvalue().encode())
    reader = FeatureReader(schema)
    assert reader.columns == ("user", "tags", "price")
    assert_same_rows(reader.from_json(body_of(rows), most_rows=200), expected)
    split = [row | {"tags": row["tags"].split("|")} for row in rows]
    assert_same_rows(reader.from_json(body_of(split), most_rows=200), expected)
    assert_same_rows(reader.from_tensors(text_tensors(rows, columns), most_rows=200), expected)


def test_slot_text_rows_with_several_values():
    schema = schema_of(
        "slots",
        slots=["user", "tags", {"name": "history", "pooling": "sequence", "max_values": 3, "keys_of": "tags"}],
        dense=[{"name": "vector", "size": 2, "normalise": "none"}],
        weight="w",
    )
    chance = random.Random(3)
    rows = []
    for _ in range(200):
        row = {name: [chance.randrange(9) for _ in range(chance.randrange(6))] for name in ("user", "tags", "history")}
        rows.append(row | {"vector": chance.choice([[], [0.25, -3.5]])})
    lines = [" ".join(["label:1", "w:2"] + [f"{k}:{v}" for k, values in row.items() for v in values]) for row in rows]
    expected = schema.parser().parse("\n".join(lines).encode())
    reader = FeatureReader(schema)
    assert_same_rows(reader.from_json(body_of([row | {"w": 2, "label": 1} for row in rows]), most_rows=200), expected)
    starts = {k: np.cumsum([0] + [len(row[k]) for row in rows]).tolist() for k in rows[0]}
    flat = {k: [value for row in rows for value in row[k]] for k in rows[0]}
    ragged = [Tensor(k, "FP32" if k == "vector" else "INT64", [len(flat[k]), 1], flat[k], starts[k]) for k in rows[0]]
    assert_same_rows(reader.from_tensors(ragged, most_rows=200), expected)


def test_feasigns_of_elasticctr():
    for keys in ("hash", "raw"):
        schema = schema_of("elasticctr", slots=["101", "102", "103"], keys=keys)
        log = b"1 0 5:101 18446744073709551615:101 7:102\n1 1 9:103\n"
        slots = [{"101": [5, 2**64 - 1], "102": ["7"], "103": [0]}, {"101": [0], "102": [0], "103": [9]}]
        instances = [{"slots": [{"slot_name": k, "feasigns": v} for k, v in row.items()]} for row in slots]
        body = json.dumps({"instances": instances}).encode()
        reader = FeatureReader(schema)
        assert_same_rows(reader.from_feasigns(body, most_rows=2), schema.parser().parse(log))
        same = [{"101": [5, 2**64 - 1], "102": 7, "show": 1, "click": 0}, {"103": "9"}]
        assert_same_rows(reader.from_json(body_of(same), most_rows=2), schema.parser().parse(log))


def test_tensors_of_the_general_service():
    schema = schema_of("slots", slots=["user", "tags"], dense=[{"name": "v", "size": 2, "normalise": "none"}, "p"])
    expected = schema.parser().parse(b"label:0 user:5 tags:a tags:b v:1.5 v:2 p:3\nlabel:0 user:6 tags:c v:3 v:4 p:4\n")
    body = {
        "tensor": [
            {"name": "x", "alias_name": "user", "elem_type": 0, "shape": [2, 1], "int64_data": [5, "6"]},
            {"name": "tags", "elem_type": 20, "shape": [3, 1], "data": ["a", "b", "c"], "lod": [0, 2, 3]},
            {"name": "v", "elem_type": 1, "shape": [2, 2], "float_data": [1.5, 2, 3, 4]},
            {"name": "p", "elem_type": 2, "shape": [2], "tensor_content": "AwAAAAQAAAA="},
        ],
        "fetch_var_names": ["probability"],
        "log_id": 7,
    }
    opened = OpenedRequest(json.dumps(body).encode())
    question = GeneralModelService().read(opened, FeatureReader(schema), most_rows=2)
    assert_same_rows(question, expected)


def test_columns_of_a_log_that_are_not_used_may_be_sent():
    reader = FeatureReader(schema_of("criteo", slots=["C1"], dense=["I1"]))
    assert reader.columns == ("C1", "I1")
    question = reader.from_json(body_of([{"label": 1} | row for row in criteo_rows(3)]), most_rows=3)
    assert question.batch.keys.shape == (3,)
    question = reader.from_tensors([Tensor("C2", "INT64", [1], [5]), Tensor("C1", "BYTES", [1], [b"x"])], most_rows=1)
    assert question.missing == 1


def test_a_column_that_the_version_knows_of_the_log_is_passed_over():
    schema = schema_of("csv", slots=["user"], labels=["click"])
    reader = FeatureReader(schema, unread=["seen", "page"])
    row = {"user": "a", "click": 1, "seen": {"any": ["thing"]}, "page": 7}
    assert reader.from_json(body_of([row, {"user": "a"}]), most_rows=2).missing == 0
    with pytest.raises(RequestError, match="there is no feature 'sen'"):
        reader.from_json(body_of([{"user": "a", "sen": 1}]), most_rows=1)


def test_one_column_may_be_several_features():
    schema = schema_of(slots=["a", {"name": "b", "column": "a", "bucket": "log"}], dense=[{"name": "c", "column": "a"}])
    reader = FeatureReader(schema)
    assert reader.columns == ("a",)
    question = reader.from_json(b'{"instances": [{"a": "100"}]}', most_rows=1)
    assert question.batch.keys.tolist() == [feature_key("a", b"100"), feature_key("b", b"8")]
    assert question.batch.dense[0, 0] == pytest.approx(np.log1p(100))


values = st.one_of(st.text(max_size=20), st.integers(-(2**63), 2**64 - 1), st.none())
several_values = st.fixed_dictionaries({}, optional={"a": values, "b": st.lists(values, max_size=4)})


@settings(max_examples=150, deadline=None)
@given(st.lists(several_values, min_size=1, max_size=20))
def test_any_texts_and_integers(rows):
    reader = FeatureReader(schema_of(slots=["a", "b"]))
    asked = reader.from_json(body_of(rows), most_rows=20).batch
    given = [_keys("a", [row.get("a")]) + _keys("b", row.get("b", [])) for row in rows]
    assert asked.keys.tolist() == [key for row in given for key in row]
    texts = [[text_of(row.get("a"))] for row in rows], [[text_of(v) for v in row.get("b", [])] for row in rows]
    tensors = [
        Tensor(name, "BYTES", [], packed_texts([text for row in column for text in row]), _starts(column))
        for name, column in zip("ab", texts, strict=True)
    ]
    packed = reader.from_tensors(tensors, most_rows=20).batch
    assert packed.keys.tolist() == asked.keys.tolist()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_any_floats_are_what_they_are_in_parquet(numbers):
    schema = schema_of(slots=["a"])
    reader = FeatureReader(schema)
    columns = {"label": pa.array([0] * len(numbers)), "a": pa.array(numbers, pa.float64())}
    expected = parse_table(schema.parser(), pa.record_batch(columns))
    assert_same_rows(reader.from_json(body_of([{"a": number} for number in numbers]), most_rows=20), expected)
    packed = Tensor("a", "FP64", [len(numbers)], np.array(numbers, "<f8").tobytes())
    assert_same_rows(reader.from_tensors([packed], most_rows=20), expected)


def _starts(column: list[list[str]]) -> list[int]:
    return np.cumsum([0] + [len(row) for row in column]).tolist()


def _keys(slot: str, given: list[object]) -> list[int]:
    texts = [text_of(value) for value in given]
    return [feature_key(slot, text.encode()) for text in texts if text] or [feature_key(slot, b"")]
