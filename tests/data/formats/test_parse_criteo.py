"""Criteo's log: what each line becomes, awkward ones included."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickline._native import feature_key
from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.schema import CATEGORIES, INTEGERS, Schema
from support.data.plain_parsers import assert_same, slowly

COLUMNS = ["label", *INTEGERS, *CATEGORIES]
SCHEMA = Schema.of(Data(), Features())


def line(label: str = "1", end: str = "\n", **values: str) -> bytes:
    row = {"label": label, **values}
    return ("\t".join(row.get(name, "") for name in COLUMNS) + end).encode()


def key_of(parsed, slot: str, row: int = 0) -> int:
    return int(parsed.keys[row * len(SCHEMA.slots) + SCHEMA.slot_names.index(slot)])


def test_a_line_becomes_label_numbers_and_keys():
    parsed = SCHEMA.parser().parse(line("1", I1="3", I2="-1", I5="1382", C1="68fd1e64", C26="abc"))
    assert (parsed.n, parsed.lines, parsed.bad, parsed.errors) == (1, 1, 0, [])
    assert parsed.labels.tolist() == [[1.0]]
    expected = [math.log(4), -math.log(2), 0, 0, math.log(1383), *[0] * 8]
    np.testing.assert_allclose(parsed.dense, [expected], rtol=1e-6)
    assert key_of(parsed, "C1") == feature_key("C1", b"68fd1e64")
    assert key_of(parsed, "C26") == feature_key("C26", b"abc")
    assert key_of(parsed, "C2") == feature_key("C2", b"")
    assert key_of(parsed, "I1") == feature_key("I1", b"3")  # floor(log2(3)) + 2
    assert key_of(parsed, "I2") == feature_key("I2", b"-1")
    assert key_of(parsed, "I5") == feature_key("I5", b"12")  # floor(log2(1382)) + 2
    assert parsed.offsets is None
    assert parsed.weights is None
    assert parsed.missing_slots[SCHEMA.slot_names.index("C2")] == 1
    assert parsed.missing_slots[SCHEMA.slot_names.index("C1")] == 0
    assert parsed.missing_dense.tolist() == [0, 0, 1, 1, 0, *[1] * 8]


@pytest.mark.parametrize("integers", ["dense", "slots", "both"])
def test_integers_are_dense_slots_or_both(integers):
    schema = Schema.of(Data(), Features(integers=integers))
    parsed = schema.parser().parse(line(I13="7") * 3)
    assert parsed.keys.shape == (3 * (26 if integers == "dense" else 39),)
    assert parsed.dense.shape == (3, 0 if integers == "slots" else 13)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line("nan"), "label 'label' must be 0 or 1, got 'nan'"),
        (line("2"), "label 'label' must be 0 or 1, got '2'"),
        (line(""), "label 'label' must be 0 or 1, got ''"),
        (line(I3="abc"), "column 'I3' must be a finite number, got 'abc'"),
        (line(I3="inf"), "column 'I3' must be a finite number, got 'inf'"),
        (line(I3="1e999"), "column 'I3' must be a finite number, got '1e999'"),
        (line(I3="-"), "column 'I3' must be a finite number, got '-'"),
        (line(I3="-1e300"), "slot 'I3' must be within 64-bit range (bucket: log), got '-1e300'"),
        (
            line().replace(b"\t", b"", 1),
            "needs 40 fields separated by tabs (label, 13 integers, 26 categories), got 39",
        ),
        (line(C26="a\tb"), "got 41"),
        (b"\0\n", "got 1"),
        (line(I3="a\0\xff" + "b" * 60), "got 'a\\x00ÿbbb"),
    ],
)
def test_a_bad_line_leaves_nothing_but_its_reason(text, reason):
    good = line("0", C1="x")
    alone = SCHEMA.parser().parse(good)
    parsed = SCHEMA.parser().parse(text + good)
    assert (parsed.n, parsed.bad, parsed.lines) == (1, 1, 2)
    assert parsed.errors[0][0] == 1
    assert reason in parsed.errors[0][1]
    for name in ("labels", "dense", "keys", "missing_slots", "missing_dense"):
        assert getattr(parsed, name).tolist() == getattr(alone, name).tolist()


def test_line_breaks_of_all_kinds():
    text = b"\n" + line("1", C26="a", end="\r\n") + b"\r\n" + line("0", C26="", end="\r\n") + line("1", C26="b", end="")
    parsed = SCHEMA.parser().parse(text)
    assert (parsed.n, parsed.bad, parsed.lines) == (3, 0, 5)
    assert [key_of(parsed, "C26", row) for row in range(3)] == [feature_key("C26", v) for v in (b"a", b"", b"b")]


def test_nothing_at_all():
    parsed = SCHEMA.parser().parse(b"")
    assert (parsed.n, parsed.lines, parsed.bad) == (0, 0, 0)
    assert parsed.labels.shape == (0, 1)
    assert parsed.dense.shape == (0, 13)
    assert parsed.keys.shape == (0,)


def test_only_the_first_ten_errors_are_kept():
    parsed = SCHEMA.parser().parse(b"oops\n" * 25)
    assert parsed.bad == 25
    assert [number for number, _ in parsed.errors] == list(range(1, 11))


def test_any_bytes_are_a_category():
    row = line(C1="x").replace(b"x", b"\xff\xfe \x00y")
    assert key_of(SCHEMA.parser().parse(row), "C1") == feature_key("C1", b"\xff\xfe \x00y")


def test_weight_time_and_group_come_from_columns():
    schema = Schema.of(Data(), Features(weight="I1", time="I2", group="C3"))
    parsed = schema.parser().parse(line(I1="0.5", I2="1700000000.9", C3="user") + line(I1="-1", I2="3", C3="user"))
    assert parsed.weights is not None
    assert parsed.times is not None
    assert parsed.groups is not None
    assert parsed.weights.tolist() == [0.5]
    assert parsed.times.tolist() == [1700000000]
    assert parsed.groups.tolist() == [feature_key("C3", b"user")]
    assert "weight 'I1' must be a finite number of at least 0, got '-1'" in parsed.errors[0][1]


def test_unlabelled_rows_for_serving():
    parsed = SCHEMA.parser(labelled=False).parse(line("?", C1="a"))
    assert parsed.n == 1
    assert parsed.labels.shape == (1, 0)


def test_blocks_larger_than_a_piece_and_threads_agree():
    parser = SCHEMA.parser()
    text = b"".join(line(str(i % 2), I1=str(i), I5=str(i * i), C1=f"{i:08x}", C9=f"{i}") for i in range(3000))
    whole = parser.parse(text)
    assert whole.n == 3000
    assert [key_of(whole, "C9", i) for i in range(3000)] == [feature_key("C9", str(i).encode()) for i in range(3000)]
    results = []
    threads = [threading.Thread(target=lambda: results.append(parser.parse(text))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(result.keys, whole.keys) for result in results)


def test_arrays_outlive_what_they_came_from():
    parsed = SCHEMA.parser().parse(bytearray(line(C1="a")))
    keys = parsed.keys
    del parsed
    assert feature_key("C1", b"a") in keys.tolist()


INTEGER = st.one_of(
    st.just(""),
    st.integers(-5, 5000).map(str),
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(
        ["nan", "inf", "1e400", "1e-400", "x", "-", "+", "+3", " 4 ", "--1", "0x10", "1_000", "00012", "5.", ".5"]
    ),
)
CATEGORY = st.one_of(st.just(b""), st.binary(min_size=8, max_size=8), st.binary(max_size=40)).map(
    lambda value: value.translate(None, b"\t\n\r")
)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"0", b"1", b"1.0", b"", b"2", b"nan"]),
            st.lists(INTEGER.map(str.encode), min_size=13, max_size=13),
            st.lists(CATEGORY, min_size=26, max_size=26),
        ),
        max_size=4,
    ),
    st.sampled_from(["none", "log1p", "standard", "minmax", "criteo"]),
    st.sampled_from([b"\n", b"\r\n"]),
)
def test_same_as_the_slow_way(rows, normalise, end):
    dense = [{"name": name, "normalise": normalise, "center": 2, "spread": 7, "missing": -1} for name in INTEGERS]
    schema = Schema.of(Data(), Features.model_validate({"dense": dense}))
    fields = [[label, *integers, *categories] for label, integers, categories in rows]
    expected = slowly(schema, [{name: [value] for name, value in zip(COLUMNS, row, strict=True)} for row in fields])
    assert_same(schema.parser().parse(b"".join(b"\t".join(row) + end for row in fields)), expected, schema)
