"""CSV: named columns, quotes, several values in one column."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickline._native import Parser, feature_key
from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.schema import Schema
from clickline.errors import DataError
from support.data.plain_parsers import assert_same, slowly

COLUMNS = ["user", "unused", "label", "tags", "age"]


def schema_of(delimiter: str = ",", **features) -> Schema:
    defaults = {
        "slots": ["user", {"name": "tags", "separator": "|"}],
        "dense": [{"name": "age", "normalise": "none"}],
    }
    return Schema.of(Data(format="csv", delimiter=delimiter), Features.model_validate(defaults | features))


SCHEMA = schema_of()


def keys(slot: str, *values: bytes) -> list[int]:
    return [feature_key(slot, value) for value in values]


def test_columns_are_found_by_name():
    parsed = SCHEMA.parser(columns=COLUMNS).parse(b"ann,?,1,a|b,30\nbob,?,0,,\n")
    assert parsed.labels.tolist() == [[1.0], [0.0]]
    assert parsed.dense.tolist() == [[30.0], [0.0]]
    assert parsed.keys.tolist() == keys("user", b"ann") + keys("tags", b"a", b"b") + keys("user", b"bob") + keys(
        "tags", b""
    )
    assert parsed.offsets is not None
    assert parsed.offsets.tolist() == [0, 1, 3, 4, 5]
    assert parsed.missing_slots.tolist() == [0, 1]
    assert parsed.missing_dense.tolist() == [1]


def test_quotes():
    text = b'"a,b",,1,"x|""y""",7\r\n"","",0,"","8"\r\nsay "hi",,1,t,9\r\n'
    parsed = SCHEMA.parser(columns=COLUMNS).parse(text)
    assert (parsed.n, parsed.bad) == (3, 0)
    assert parsed.keys.tolist() == [
        *keys("user", b"a,b"),
        *keys("tags", b"x", b'"y"'),
        *keys("user", b""),
        *keys("tags", b""),
        *keys("user", b'say "hi"'),
        *keys("tags", b"t"),
    ]
    assert parsed.dense.tolist() == [[7.0], [8.0], [9.0]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"ann,,1,a", "a line needs 5 fields separated by ',', got 4"),
        (b"ann,,1,a,3,4", "a line needs 5 fields separated by ',', got 6"),
        (b'"ann",,1,a', "a line needs 5 fields separated by ',', got 4"),
        (b'"ann,,1,a,3', "a quoted field does not end on its line (line breaks inside quotes are not supported)"),
        (b'"ann"x,,1,a,3', "text after the closing quote of a field"),
        (b"ann,,NaN,a,3", "label 'label' must be 0 or 1, got 'NaN'"),
        (b"ann,,,a,3", "label 'label' must be 0 or 1, got ''"),
        (b"ann,,1,a,NA", "dense feature 'age' must be a finite number, got 'NA'"),
        (b"ann,,1,a,-inf", "dense feature 'age' must be a finite number, got '-inf'"),
    ],
)
def test_bad_rows(text, reason):
    parsed = SCHEMA.parser(columns=COLUMNS).parse(b"\nbob,,1,t,1\n" + text + b"\nbob,,1,t,1")
    assert (parsed.n, parsed.bad, parsed.lines) == (2, 1, 4)
    assert parsed.errors == [(3, reason)]


def test_empty_values_between_separators_are_dropped():
    parsed = SCHEMA.parser(columns=COLUMNS).parse(b"ann,,1,|a||b|,1\nann,,1,||,1\n")
    assert parsed.keys.tolist()[1:3] == keys("tags", b"a", b"b")
    assert parsed.keys.tolist()[4:] == keys("tags", b"")


def test_other_delimiters():
    parsed = schema_of(";").parser(columns=COLUMNS).parse(b"a,b;;1;t;1\n")
    assert parsed.keys.tolist()[0] == feature_key("user", b"a,b")


def test_a_column_that_is_not_there():
    with pytest.raises(DataError, match="no column 'tags' in the data; its columns are: user, label, age"):
        SCHEMA.parser(columns=["user", "label", "age"])
    with pytest.raises(DataError, match="column 'user' is in the data more than once"):
        SCHEMA.parser(columns=[*COLUMNS, "user"])


def test_the_native_parser_refuses_nonsense():
    good = {
        "format": "csv", "columns": ["label", "a"], "labels": ["label"], "slots": [("a", "a", "none", "", 1, False)],
        "dense": [], "weight": "", "time": "", "group": "", "raw_keys": False, "delimiter": ",",
    }  # fmt: skip
    assert Parser(**good).parse(b"1,x").n == 1
    for wrong, message in [
        ({"format": "xml"}, "format must be"),
        ({"delimiter": '"'}, "delimiter must be"),
        ({"delimiter": ""}, "delimiter must be"),
        ({"columns": ["a"]}, "no column 'label'"),
        ({"slots": [("a", "a", "cube", "", 1, False)]}, "bucket must be"),
        ({"slots": [("a", "a", "none", "||", 1, False)]}, "separator must be"),
        ({"slots": [("a", "a", "none", "", 0, False)]}, "max_values must be"),
        ({"slots": [("a", "a", "log", "", 1, False)], "raw_keys": True}, "raw keys"),
        ({"dense": [("a", "a", 0, "none", 0.0, 1.0, 0.0)]}, "size must be"),
        ({"dense": [("a", "a", 1, "sqrt", 0.0, 1.0, 0.0)]}, "normalise must be"),
        ({"dense": [("a", "a", 1, "minmax", 0.0, 0.0, 0.0)]}, "spread"),
    ]:
        with pytest.raises(ValueError, match=message):
            Parser(**(good | wrong))


VALUE = st.text(st.sampled_from('ab,|" éß\t;'), max_size=6)
AGE = st.sampled_from(["", "1", "-2.5", "x", "1e3"])


@settings(deadline=None)
@given(
    st.lists(st.tuples(VALUE, VALUE, st.sampled_from(["0", "1", "2"]), VALUE, AGE), max_size=6),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_same_as_the_slow_way(rows, delimiter, quoting, end):
    schema = schema_of(delimiter)
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(rows)
    expected = [{name: [v.encode()] for name, v in zip(COLUMNS, row, strict=True)} for row in rows]
    parsed = schema.parser(columns=COLUMNS).parse(text.getvalue().encode())
    assert_same(parsed, slowly(schema, expected), schema)
