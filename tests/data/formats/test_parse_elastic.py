"""ElasticCTR's log: show, click, then feasign:slot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickline._native import feature_key
from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.schema import Schema
from support.data.plain_parsers import assert_same, slowly

DATA = Data(format="elasticctr")
SCHEMA = Schema.of(DATA, Features.model_validate({"slots": ["0", "1", "2"]}))


def test_click_is_the_label_and_unlisted_slots_are_ignored():
    parsed = SCHEMA.parser().parse(b"1 0 17241709254077376921:0 132683728328325035:1 5:77\n1 1 9:2 8:2\n")
    assert parsed.labels.tolist() == [[0.0], [1.0]]
    assert parsed.keys.tolist() == [
        feature_key("0", b"17241709254077376921"),
        feature_key("1", b"132683728328325035"),
        feature_key("2", b""),
        feature_key("0", b""),
        feature_key("1", b""),
        feature_key("2", b"9"),
        feature_key("2", b"8"),
    ]
    assert parsed.offsets is not None
    assert parsed.offsets.tolist() == [0, 1, 2, 3, 4, 5, 7]
    assert parsed.missing_slots.tolist() == [1, 1, 1]


def test_raw_keys_are_the_feasigns_and_empty_slots_are_zero():
    schema = Schema.of(DATA, Features.model_validate({"slots": ["0", "1"], "keys": "raw"}))
    parsed = schema.parser().parse(b"1 0 17241709254077376921:0\n1 0 abc:0")
    assert parsed.keys.tolist() == [17241709254077376921, 0]
    assert parsed.errors == [(2, "slot '0' must be a decimal number of 64 bits (keys: raw), got 'abc'")]


def test_shows_as_weight():
    schema = Schema.of(DATA, Features.model_validate({"slots": ["0"], "weight": "show"}))
    parsed = schema.parser().parse(b"3 1 5:0\nx 1 5:0\n")
    assert parsed.weights is not None
    assert parsed.weights.tolist() == [3.0]
    assert parsed.errors == [(2, "weight 'show' must be a finite number of at least 0, got 'x'")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"1", "expected show, click and feasign:slot pairs, got '1'"),
        (b"1 nan 5:0", "label 'click' must be 0 or 1, got 'nan'"),
        (b"1 5:0", "label 'click' must be 0 or 1, got '5:0'"),
        (b"1 1 5", "expected feasign:slot, got '5'"),
    ],
)
def test_bad_rows(text, reason):
    parsed = SCHEMA.parser().parse(text + b"\r\n\r\n1 1\r\n")
    assert (parsed.n, parsed.bad, parsed.lines) == (1, 1, 3)
    assert parsed.errors == [(1, reason)]


PAIR = st.tuples(st.sampled_from(["", "7", "12345678901234567890", "a:b", "é"]), st.sampled_from(["0", "1", "2", "3"]))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["0", "1", "1.0", "x"]), st.lists(PAIR, max_size=8)), max_size=5))
def test_same_as_the_slow_way(rows):
    expected = []
    for label, pairs in rows:
        row = {"click": [label.encode()]}
        for value, slot in pairs:
            row.setdefault(slot, []).append(value.encode())
        expected.append(row)
    text = "\n".join(" ".join(["1", label, *(f"{value}:{slot}" for value, slot in pairs)]) for label, pairs in rows)
    assert_same(SCHEMA.parser().parse(text.encode()), slowly(SCHEMA, expected), SCHEMA)
