"""Slot text: name:value in any order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickline._native import feature_key
from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.schema import Schema
from support.data.plain_parsers import assert_same, slowly

DATA = Data(format="slots")


def schema_of(**features) -> Schema:
    defaults = {
        "labels": ["click"],
        "slots": [
            "1",
            "2",
            {"name": "long", "max_values": 2},
            {"name": "last", "max_values": 2, "pooling": "sequence"},
        ],
        "dense": [{"name": "dense_var", "size": 3, "normalise": "none", "missing": 0.25}],
    }
    return Schema.of(DATA, Features.model_validate(defaults | features))


SCHEMA = schema_of()


def cells(parsed, schema: Schema = SCHEMA) -> list[list[int]]:
    keys = parsed.keys.tolist()
    offsets = range(len(keys) + 1) if parsed.offsets is None else parsed.offsets.tolist()
    return [keys[a:b] for a, b in itertools.pairwise(offsets)]


def keys(slot: str, *values: bytes) -> list[int]:
    return [feature_key(slot, value) for value in values]


def test_any_order_missing_slots_and_unknown_slots():
    text = b"2:b dense_var:0.1 click:1 9:ignored dense_var:0.2 1:a dense_var:-3e-1\nclick:0\n"
    parsed = SCHEMA.parser().parse(text)
    assert (parsed.n, parsed.bad) == (2, 0)
    assert parsed.labels.tolist() == [[1.0], [0.0]]
    np.testing.assert_allclose(parsed.dense, [[0.1, 0.2, -0.3], [0.25] * 3], rtol=1e-6)
    assert parsed.offsets is None
    missing = [keys("1", b""), keys("2", b""), keys("long", b""), keys("last", b"")]
    assert cells(parsed) == [keys("1", b"a"), keys("2", b"b"), *missing[2:], *missing]
    assert parsed.missing_slots.tolist() == [1, 1, 2, 2]
    assert parsed.missing_dense.tolist() == [1]


def test_repeated_slots_are_several_values():
    parsed = SCHEMA.parser().parse(b"click:0\nlong:a last:a 1:x long:b last:b 1:y long:c last:c click:1 1:x\nclick:0")
    assert cells(parsed)[4:8] == [
        keys("1", b"x", b"y", b"x"),
        keys("2", b""),
        keys("long", b"a", b"b"),
        keys("last", b"b", b"c"),
    ]
    assert parsed.offsets is not None
    assert len(parsed.offsets) == 3 * 4 + 1
    assert [len(cell) for cell in cells(parsed)] == [1, 1, 1, 1, 3, 1, 2, 2, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"click:nan", "label 'click' must be 0 or 1, got 'nan'"),
        (b"1:a", "label 'click' is missing"),
        (b"click:1 click:0", "label 'click' is given more than once"),
        (b"click:1 nonsense", "expected name:value, got 'nonsense'"),
        (b"click:1 dense_var:1 dense_var:2", "dense feature 'dense_var' needs 3 numbers, got 2"),
        (b"click:1" + b" dense_var:1" * 4, "dense feature 'dense_var' needs 3 numbers, got 4"),
        (b"click:1 dense_var:x", "dense feature 'dense_var' must be a finite number, got 'x'"),
        (b"click:1 dense_var:1e39", "dense feature 'dense_var' must be within 32-bit range, got '1e39'"),
    ],
)
def test_bad_rows(text, reason):
    parsed = SCHEMA.parser().parse(b"click:1 1:a 1:b\n" + text + b"\nclick:1 1:a\n")
    assert (parsed.n, parsed.bad, parsed.lines) == (2, 1, 3)
    assert parsed.errors == [(2, reason)]
    assert parsed.missing_dense.tolist() == [2]
    assert len(parsed.keys) == 9


def test_bad_rows_with_several_values_do_not_make_offsets():
    parsed = SCHEMA.parser().parse(b"1:a 1:b\nclick:1\n")
    assert parsed.bad == 1
    assert parsed.offsets is None


def test_blanks_of_all_kinds():
    parsed = SCHEMA.parser().parse(b"  click:1\t 1:a  \r\n \t \r\n\n  1:b click:0")
    assert (parsed.n, parsed.bad, parsed.lines) == (2, 0, 4)
    assert cells(parsed)[0] == keys("1", b"a")


def test_values_may_hold_colons_any_bytes_or_nothing():
    parsed = SCHEMA.parser().parse("click:1 1:a:b 2:東京 long: \n".encode())
    assert cells(parsed)[:3] == [keys("1", b"a:b"), keys("2", "東京".encode()), keys("long", b"")]


def test_raw_keys():
    schema = schema_of(keys="raw", slots=["1", "2"], dense=[])
    parsed = schema.parser().parse(b"click:1 1:18446744073709551615\nclick:0 1:18446744073709551616\nclick:0 1:-1")
    assert parsed.keys.tolist() == [2**64 - 1, 0]
    assert parsed.bad == 2
    assert "slot '1' must be a decimal number of 64 bits (keys: raw), got '18446744073709551616'" in parsed.errors[0][1]


def test_one_column_for_several_purposes():
    slots = [{"name": "a", "column": "x"}, {"name": "b", "column": "x", "bucket": "log"}]
    schema = schema_of(slots=slots, dense=[{"name": "d", "column": "x", "normalise": "none"}], group="x", weight="w")
    parsed = schema.parser().parse(b"x:100 click:1 w:2\nx:100 click:1\n")
    assert parsed.keys.tolist() == keys("a", b"100") + keys("b", b"8")
    assert parsed.dense.tolist() == [[100.0]]
    assert parsed.groups is not None
    assert parsed.groups.tolist() == keys("x", b"100")
    assert parsed.errors == [(2, "weight 'w' is missing")]


def test_several_labels():
    schema = schema_of(labels=["click", "buy"])
    assert schema.parser().parse(b"buy:0 click:1\n").labels.tolist() == [[1.0, 0.0]]


TOKEN = st.tuples(
    st.sampled_from(["1", "2", "long", "last", "9", "dense_var"]),
    st.sampled_from(["", "0", "1", "0.5", "x", "-7", "longer:value", "ü", "1e400"]),
).map(":".join)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["click:0", "click:1", "click:2", ""]), st.lists(TOKEN, max_size=12), st.randoms()),
        max_size=5,
    ),
    st.sampled_from([" ", "  ", "\t"]),
)
def test_same_as_the_slow_way(rows, blank):
    dense = [{"name": "dense_var", "normalise": "none"}]
    schema = schema_of(dense=dense)
    lines, expected = [], []
    for label, tokens, order in rows:
        words = [word for word in [label, *tokens] if word]
        order.shuffle(words)
        lines.append(blank.join(words))
        if words:
            row: dict[str, list[bytes]] = {}
            for word in words:
                name, value = word.split(":", 1)
                row.setdefault(name, []).append(value.encode())
            expected.append(row)
    assert_same(schema.parser().parse("\n".join(lines).encode()), slowly(schema, expected), schema)
