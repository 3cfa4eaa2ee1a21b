"""SequenceFiles into dictionaries and back; bad input fails loudly and leaves nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickline._native import Dictionary, decode_rows, write_dictionary
from clickline.compat.cube.conversion import Layout, from_dictionary, rows_to_sequence, to_dictionary
from clickline.compat.cube.row_text import rows_of
from clickline.errors import DataError
from support.fuzz.budget import budgeted
from support.plain_sequence_files import records, written
from support.processes import run

SYNC = bytes(16)


@budgeted
@given(st.dictionaries(st.integers(0, 2**64 - 1), st.binary(max_size=30), max_size=20))
def test_any_rows_go_there_and_back(tmp_path: Path, table: dict[int, bytes]) -> None:
    (tmp_path / "seq").write_bytes(written(list(table.items()), SYNC))
    assert to_dictionary(tmp_path / "seq", tmp_path / "dict")["count"] == len(table)
    dictionary = Dictionary(str(tmp_path / "dict"))
    dictionary.verify()
    assert from_dictionary(tmp_path / "dict", tmp_path / "back", seed=1) == len(table)
    assert dict(rows_of(tmp_path / "back")) == table


def test_fp32_rows_keep_their_numbers(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).standard_normal((5000, 9)).astype(np.float32)
    (tmp_path / "base").mkdir()
    rows_to_sequence(rows, tmp_path / "base" / "feature")
    facts = to_dictionary(tmp_path / "base", tmp_path / "dict", layout="fp32")
    dictionary = Dictionary(str(tmp_path / "dict"))
    assert (facts["count"], dictionary.dim, dictionary.dtype) == (5000, 9, 1)
    status, values = dictionary.lookup(np.arange(5001, dtype=np.uint64))
    assert status.tolist() == [0] * 5000 + [1]
    assert (values[:5000].view(np.float32) == rows).all()
    from_dictionary(tmp_path / "dict", tmp_path / "back")
    assert dict(records(tmp_path / "back")) == {key: row.tobytes() for key, row in enumerate(rows)}


def test_eight_bits_have_minimum_and_maximum_before_them(tmp_path: Path) -> None:
    rows = np.array([[-1.0, 0.0, 1.0], [5.0, 5.0, 5.0]], np.float32)
    rows_to_sequence(rows, tmp_path / "seq", layout="u8")
    values = dict(records(tmp_path / "seq"))
    assert values[0][:8] == np.array([-1, 1], "<f4").tobytes()
    assert len(values[0]) == 8 + 3
    to_dictionary(tmp_path / "seq", tmp_path / "dict", layout="u8")
    dictionary = Dictionary(str(tmp_path / "dict"))
    found = decode_rows(dictionary.lookup(np.arange(2, dtype=np.uint64))[1], 3, 3)
    assert np.abs(found - rows).max() <= 2 / 255


@pytest.mark.parametrize(
    ("rows", "layout", "message"),
    [
        ([(1, b"abcd"), (2, b"abc")], "fp32", "values of 4 bytes, as its first is, but that of key 2 has 3"),
        ([(1, b"abc")], "fp32", "does not hold fp32: the value of key 1 has 3 bytes"),
        ([(1, b"")], "fp32", "does not hold fp32"),
        ([(1, b"12345678")], "u8", "does not hold u8: the value of key 1 has 8 bytes"),
        ([(7, b"a"), (8, b"b"), (7, b"a")], "bytes", "key 7 comes twice"),
    ],
)
def test_bad_rows_make_no_dictionary(
    tmp_path: Path, rows: list[tuple[int, bytes]], layout: Layout, message: str
) -> None:
    (tmp_path / "seq").write_bytes(written(rows, SYNC))
    with pytest.raises(DataError, match=message):
        to_dictionary(tmp_path / "seq", tmp_path / "dict", layout=layout)
    assert [item.name for item in tmp_path.iterdir()] == ["seq"]


@pytest.mark.heavy
def test_one_bad_file_of_many_is_enough(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    good = written([(1, b"abcd")], SYNC)
    (tmp_path / "base" / "part-0").write_bytes(good)
    (tmp_path / "base" / "part-1").write_bytes(good[:-1])
    result = run("rows", "to-dict", tmp_path / "base", "--out", tmp_path / "out" / "dict", "--json")
    assert result.returncode == 4
    assert "part-1" in json.loads(result.stdout)["error"]["message"]
    assert not (tmp_path / "out" / "dict").exists()


def test_deleted_keys_cannot_be_said(tmp_path: Path) -> None:
    keys, gone = np.array([1], np.uint64), np.array([2], np.uint64)
    write_dictionary(str(tmp_path / "dict"), keys, np.zeros((1, 4), np.uint8), dtype=1, dim=1, deleted=gone)
    with pytest.raises(DataError, match="1 deleted keys"):
        from_dictionary(tmp_path / "dict", tmp_path / "seq")


@pytest.mark.heavy
def test_a_damaged_dictionary_is_not_copied(tmp_path: Path) -> None:
    rows_to_sequence(np.ones((10, 2), np.float32), tmp_path / "seq")
    to_dictionary(tmp_path / "seq", tmp_path / "dict", layout="fp32")
    data = bytearray((tmp_path / "dict").read_bytes())
    data[-1] ^= 1
    (tmp_path / "dict").write_bytes(data)
    result = run("rows", "from-dict", tmp_path / "dict", "--out", tmp_path / "back")
    assert (result.returncode, (tmp_path / "back").exists()) == (4, False)
    assert run("rows", "from-dict", tmp_path / "nothing", "--out", tmp_path / "back").returncode == 4


def test_no_rows_at_all_are_a_dictionary_too(tmp_path: Path) -> None:
    (tmp_path / "seq").write_bytes(written([], SYNC))
    for layout in ("bytes", "fp32", "u8"):
        assert to_dictionary(tmp_path / "seq", tmp_path / layout, layout=layout)["count"] == 0  # type: ignore[arg-type]
        assert from_dictionary(tmp_path / layout, tmp_path / "back") == 0
