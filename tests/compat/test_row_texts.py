"""Text to SequenceFiles and back, and the hexadecimal dump."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickline.compat.cube.row_text import Values, dump, from_text, rows_of, to_text
from clickline.errors import DataError
from support.fuzz.budget import budgeted
from support.plain_sequence_files import records
from support.processes import run


def test_a_sample_text_comes_back_as_it_was(tmp_path: Path) -> None:
    sample = b"1:1 2 3\n18446744073709551615:a:b\n2:\n"
    (tmp_path / "text").write_bytes(sample)
    assert from_text(tmp_path / "text", tmp_path / "seq") == 3
    assert list(records(tmp_path / "seq")) == [(1, b"1 2 3"), (2**64 - 1, b"a:b"), (2, b"")]
    assert b"".join(to_text(tmp_path / "seq")) == sample


def test_numbers_become_fp32_and_come_back_exactly(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("7:0.1, -2.5e3 ,inf\n8:1e-45\n")
    from_text(tmp_path / "text", tmp_path / "seq", values="fp32")
    assert next(rows_of(tmp_path / "seq")) == (7, struct.pack("<3f", 0.1, -2500, float("inf")))
    (tmp_path / "again").write_bytes(b"".join(to_text(tmp_path / "seq", values="fp32")))
    from_text(tmp_path / "again", tmp_path / "seq2", values="fp32")
    assert list(rows_of(tmp_path / "seq2")) == list(rows_of(tmp_path / "seq"))


@budgeted
@given(st.dictionaries(st.integers(0, 2**64 - 1), st.lists(st.floats(width=32, allow_nan=False), max_size=5)))
def test_any_numbers_round_trip(tmp_path: Path, table: dict[int, list[float]]) -> None:
    lines = [f"{key}:{' '.join(str(np.float32(number)) for number in row)}\n" for key, row in table.items()]
    (tmp_path / "text").write_text("".join(lines))
    from_text(tmp_path / "text", tmp_path / "seq", values="fp32")
    assert b"".join(to_text(tmp_path / "seq", values="fp32")).decode() == "".join(lines)


@budgeted
@given(st.dictionaries(st.integers(0, 2**64 - 1), st.binary(max_size=20)))
def test_any_bytes_round_trip_as_hexadecimal(tmp_path: Path, table: dict[int, bytes]) -> None:
    (tmp_path / "text").write_text("".join(f"{key}:{value.hex()}\n" for key, value in table.items()))
    from_text(tmp_path / "text", tmp_path / "seq", values="hex")
    assert dict(rows_of(tmp_path / "seq")) == table


@budgeted
@given(st.binary(max_size=60), st.sampled_from(["text", "fp32", "hex"]))
def test_any_text_is_read_or_refused(tmp_path: Path, data: bytes, values: Values) -> None:
    (tmp_path / "text").write_bytes(data)
    try:
        count = from_text(tmp_path / "text", tmp_path / "seq", values=values)
    except DataError as error:
        assert "line " in str(error)
    else:
        assert count == len(data.removesuffix(b"\n").split(b"\n")) - (not data)


@pytest.mark.parametrize(
    ("line", "values", "message"),
    [
        ("no colon", "text", "line 2: there is no colon"),
        ("-1:x", "text", "below 2^64, got '-1'"),
        ("18446744073709551616:x", "text", "below 2^64"),
        ("1_0:x", "text", "below 2^64"),
        ("5:1 x", "fp32", "'x' is not a number"),
        ("5:1e39", "fp32", "too large for fp32"),
        ("5:abc", "hex", "pairs of hexadecimal digits"),
        ("", "text", "there is no colon"),
    ],
)
def test_a_bad_line_is_named_and_leaves_no_file(tmp_path: Path, line: str, values: Values, message: str) -> None:
    (tmp_path / "text").write_text(f"1:00\n{line}\n")
    with pytest.raises(DataError) as error:
        from_text(tmp_path / "text", tmp_path / "seq", values=values)
    assert message in str(error.value)
    assert [item.name for item in tmp_path.iterdir()] == ["text"]


def test_the_dump_has_the_form_of_cube(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("5:AB\n6:\n7:z\n")
    from_text(tmp_path / "text", tmp_path / "seq")
    assert list(dump(tmp_path / "seq", most=2)) == ["key: 5 , value: 4142", "key: 6 , value: "]


def test_values_that_do_not_fit_the_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("9:0a\n")
    from_text(tmp_path / "text", tmp_path / "seq", values="hex")
    with pytest.raises(DataError, match=r"key 9 .* end of line"):
        list(to_text(tmp_path / "seq"))
    with pytest.raises(DataError, match=r"key 9 .* not a whole number of fp32"):
        list(to_text(tmp_path / "seq", values="fp32"))


@pytest.mark.heavy
def test_the_verbs_do_the_same(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("5:0.5 1.5\n")
    made = run("rows", "from-text", tmp_path / "text", "--values", "fp32", "--out", tmp_path / "seq")
    assert (made.returncode, made.stdout) == (0, f"1 rows in {tmp_path / 'seq'}\n")
    assert run("rows", "dump", tmp_path / "seq").stdout == "key: 5 , value: 0000003f0000c03f\n"
    assert run("rows", "to-text", tmp_path / "seq", "--values", "fp32").stdout == "5:0.5 1.5\n"
    (tmp_path / "text").write_text("bad\n")
    failed = run("rows", "from-text", tmp_path / "text", "--out", tmp_path / "other")
    assert (failed.returncode, (tmp_path / "other").exists()) == (4, False)
