"""Arrow batches: every type a log may have, and the same keys as from text."""

from __future__ import annotations

import datetime
import decimal
import io

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickline._native import feature_key
from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.schema import Schema
from clickline.data.sources.arrow import parse_table
from clickline.errors import DataError


def schema_of(**features) -> Schema:
    return Schema.of(Data(format="parquet"), Features.model_validate(features))


def keys_of(array: pa.Array, **slot) -> list[int]:
    schema = schema_of(slots=[{"name": "s"} | slot])
    batch = pa.record_batch({"label": pa.array([0] * len(array)), "s": array, "unused": array})
    parsed = parse_table(schema.parser(), batch)
    assert parsed.bad == 0, parsed.errors
    return parsed.keys.tolist()


def keys(*values: str) -> list[int]:
    return [feature_key("s", value.encode()) for value in values]


@pytest.mark.parametrize(
    ("array", "texts"),
    [
        (pa.array(["a", "", None, "é" * 20]), ["a", "", "", "é" * 20]),
        (pa.array([b"a", None], pa.binary()), ["a", ""]),
        (pa.array(["a", None], pa.large_string()), ["a", ""]),
        (pa.array(["a", None], pa.large_binary()), ["a", ""]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", "", "a"]),
        (pa.array([1, -2, None, 2**63 - 1]), ["1", "-2", "", str(2**63 - 1)]),
        (pa.array([2**64 - 1, 0], pa.uint64()), [str(2**64 - 1), "0"]),
        (pa.array([-128, None], pa.int8()), ["-128", ""]),
        (pa.array([65535], pa.uint16()), ["65535"]),
        (pa.array([7.0, 0.1, -0.0, None, 1e22], pa.float64()), ["7", "0.1", "0", "", "1e+22"]),
        (pa.array([7.0, 0.1], pa.float32()), ["7", "0.1"]),
        (pa.array([1.5], pa.float16()), ["1.5"]),
        (pa.array([True, False, None]), ["true", "false", ""]),
        (pa.array([decimal.Decimal("1.50"), None]), ["1.50", ""]),
        (pa.nulls(2), ["", ""]),
        (pa.array([], pa.string()), []),
    ],
)
def test_values_become_keys_by_their_text(array, texts):
    assert keys_of(array) == keys(*texts)


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, lambda item: pa.list_(item, 2)])
def test_lists_are_several_values(kind):
    array = pa.array([["a", "b"], None, [None, "c"]], kind(pa.string()))
    assert keys_of(array) == keys("a", "b", "", "c")
    numbers = pa.array([[1, 2], None, [3, 4]], kind(pa.int32()))
    assert keys_of(numbers) == keys("1", "2", "", "3", "4")


def test_lists_of_any_length_with_offsets():
    schema = schema_of(slots=["s", {"name": "last", "column": "s", "pooling": "sequence", "max_values": 1}])
    array = pa.array([["a", "b", "c"], [], ["d"], ["", None]]).slice(0)
    parsed = parse_table(schema.parser(), pa.record_batch({"label": pa.array([0, 1, 0, 1]), "s": array}))
    assert parsed.offsets is not None
    assert parsed.offsets.tolist() == [0, 3, 4, 5, 6, 7, 8, 9, 10]
    assert parsed.missing_slots.tolist() == [2, 2]
    assert parsed.keys.tolist()[3] == feature_key("last", b"c")


def test_slices_start_where_they_say():
    batch = pa.record_batch(
        {
            "label": pa.array([True, False, True, True]),
            "s": pa.array(["a", None, "c", "d"]),
            "l": pa.array([["p"], ["q", None], None, ["r", "s"]]),
            "f": pa.array([1.0, None, 3.0, 4.0]),
        }
    )
    schema = schema_of(slots=["s", "l"], dense=[{"name": "f", "normalise": "none", "missing": -1}])
    whole, part = parse_table(schema.parser(), batch), parse_table(schema.parser(), batch.slice(1, 2))
    assert part.labels.tolist() == whole.labels.tolist()[1:3] == [[0.0], [1.0]]
    assert part.dense.tolist() == [[-1.0], [3.0]]
    assert part.keys.tolist() == whole.keys.tolist()[2:6]


def test_numbers_labels_weights_and_times():
    schema = schema_of(
        labels=["click", "buy"],
        slots=[{"name": "b", "column": "n", "bucket": "log"}],
        dense=[{"name": "n", "normalise": "none"}, {"name": "v", "size": 2, "normalise": "none", "missing": 9}],
        weight="w",
        time="t",
        group="n",
    )
    moments = [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.datetime(1970, 1, 1, 0, 0, 5)]
    parsed = parse_table(
        schema.parser(),
        pa.table(
            {
                "click": pa.array([True, False]),
                "buy": pa.array([0.0, 1.0]),
                "n": pa.array([100, None], pa.int32()),
                "v": pa.array([[1.5, 2.5], None], pa.list_(pa.float32(), 2)),
                "w": pa.array([1, 2], pa.uint8()),
                "t": pa.array([moment.replace(tzinfo=None) for moment in moments], pa.timestamp("us")),
            }
        ),
    )
    assert parsed.labels.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert parsed.dense.tolist() == [[100.0, 1.5, 2.5], [0.0, 9.0, 9.0]]
    assert parsed.keys.tolist() == [feature_key("b", b"8"), feature_key("b", b"")]
    assert parsed.weights is not None
    assert parsed.weights.tolist() == [1.0, 2.0]
    assert parsed.times is not None
    assert parsed.times.tolist() == [1577836800, 5]
    assert parsed.groups is not None
    assert parsed.groups.tolist() == [feature_key("n", b"100"), feature_key("n", b"")]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"label": [None]}, "label 'label' is missing"),
        ({"label": [2]}, "label 'label' must be 0 or 1, got '2'"),
        ({"label": [float("nan")]}, "label 'label' must be 0 or 1, got 'nan'"),
        ({"d": [float("inf")]}, "dense feature 'd' must be a finite number, got 'inf'"),
        ({"d": ["x"]}, "dense feature 'd' must be a finite number, got 'x'"),
        ({"s": [float("nan")]}, "slot 's' must be text or a finite number, got 'nan'"),
        ({"d": [[1.0, 2.0]]}, "dense feature 'd' needs 1 numbers, got 2"),
    ],
)
def test_bad_rows(columns, reason):
    schema = schema_of(slots=["s"], dense=["d"])
    parsed = parse_table(schema.parser(), pa.table({"label": [1], "s": ["a"], "d": [1.0]} | columns))
    assert (parsed.n, parsed.bad, parsed.lines) == (0, 1, 1)
    assert parsed.errors == [(1, reason)]


def test_raw_keys():
    schema = schema_of(slots=["s"], keys="raw")
    parsed = parse_table(schema.parser(), pa.table({"label": [1, 1, 0], "s": [5, -5, None]}))
    assert parsed.keys.tolist() == [5, 0]
    assert parsed.bad == 1


def test_columns_that_cannot_be_read():
    parser = schema_of(slots=["s"]).parser()
    with pytest.raises(DataError, match=r"no column 's' in the data; its columns are: label, t"):
        parse_table(parser, pa.table({"label": [1], "t": [1]}))
    with pytest.raises(DataError, match=r"column 's' has the type struct<a: int64>"):
        parse_table(parser, pa.table({"label": [1], "s": [{"a": 1}]}))
    with pytest.raises(DataError, match="expected a pyarrow RecordBatch"):
        parse_table(parser, {"label": [1]})


def test_buffers_that_lie_are_refused():
    parser = schema_of(slots=["s"]).parser()
    label = ("label", "int64", 0, 2, None, None, b"\0" * 16, None)
    starts = np.array([0, 1, 99], np.int32).tobytes()
    for column, message in [
        (("s", "int64", 0, 2, None, None, b"\0" * 15, None), "values is too short"),
        (("s", "int64", 0, 1, None, None, b"\0" * 16, None), "fewer values than there are rows"),
        (("s", "int64", 2**63, 2, None, None, b"\0" * 16, None), "2\\^48"),
        (("s", "text32", 0, 2, None, starts, b"abc", None), "leave the buffer"),
        (("s", "text32", 1, 2, None, starts, b"abc", None), "offsets is too short"),
        (("s", "int64", 0, 2, b"", None, b"\0" * 16, None), "nulls is too short"),
        (("s", "int64", 0, 2, None, None, b"\0" * 16, (0, None, b"\0" * 16)), "list offsets is too short"),
        (("s", "int64", 0, 2, None, None, b"\0" * 16, (0, None, b"\x09" * 24)), "list offsets leave"),
        (("s", "decimal", 0, 2, None, None, b"\0" * 16, None), "kind must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            parser.parse_columns(2, [label, column])
    assert parser.parse_columns(2, [label, ("s", "int64", 0, 2, None, None, b"\0" * 16, None)]).n == 2


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.booleans().map(int),
            st.integers(-(2**63), 2**63 - 1),
            st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=9),
            st.floats(-(2.0**90), 2.0**90, width=32),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_csv_and_columns_give_the_same_rows(rows):
    names = ["label", "number", "text", "real"]
    features = {"slots": ["number", "text"], "dense": [{"name": "real"}]}
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    text = io.BytesIO()
    pyarrow.csv.write_csv(table, text, pyarrow.csv.WriteOptions(include_header=False))
    csv_schema = Schema.of(Data(format="csv"), Features.model_validate(features))
    by_text = csv_schema.parser(columns=names).parse(text.getvalue())
    by_column = parse_table(schema_of(**features).parser(), table)
    assert by_text.n == by_column.n == len(rows)
    assert by_text.keys.tolist() == by_column.keys.tolist()
    np.testing.assert_allclose(by_text.dense, by_column.dense, rtol=1e-6)
