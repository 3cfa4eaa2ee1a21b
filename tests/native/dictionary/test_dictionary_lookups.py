"""What is found in a dictionary is what was written, wherever it lies and whatever the size of values."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickline._native import Dictionary, DictionaryError, Layers, write_dictionary

FOUND, MISSING, DELETED = 0, 1, 2


def keys(*numbers: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(numbers, np.uint64)


def test_a_key_is_found_missing_or_deleted(write: Any) -> None:
    dictionary = write({1: b"aaaa", 2**64 - 1: b"bbbb", 7: None})
    status, rows = dictionary.lookup(keys(2**64 - 1, 7, 8, 1))
    assert status.tolist() == [FOUND, DELETED, MISSING, FOUND]
    assert [row.tobytes() for row in rows] == [b"bbbb", bytes(4), bytes(4), b"aaaa"]
    assert (dictionary.count, dictionary.deleted, dictionary.row_bytes) == (2, 1, 4)
    assert sorted(dictionary.keys().tolist()) == [1, 2**64 - 1]
    assert dictionary.deleted_keys().tolist() == [7]


def test_to_layers_a_deleted_key_is_missing(write: Any) -> None:
    layers = Layers([write({1: b"aaaa", 2: b"bbbb"}), write({2: None, 3: b"cccc"}), write({1: b"dddd"})])
    status, rows = layers.lookup(keys(1, 2, 3, 4))
    assert status.tolist() == [FOUND, MISSING, FOUND, MISSING]
    assert rows.tobytes() == b"dddd" + bytes(4) + b"cccc" + bytes(4)


def test_rows_go_into_the_array_that_is_given(write: Any) -> None:
    dictionary = write({1: b"aaaa"})
    out = np.full((2, 4), 9, np.uint8)
    _, rows = dictionary.lookup(keys(5, 1), out)
    assert rows is out
    assert out.tobytes() == bytes(4) + b"aaaa"


def test_values_of_any_size_come_back_whole(write: Any) -> None:
    large = bytes(range(256)) * 16
    dictionary = write({1: large, 2: b"", 3: b"x", 4: None}, row_bytes=0)
    status, offsets, values = dictionary.lookup_values(keys(3, 1, 2, 4, 5))
    assert status.tolist() == [FOUND, FOUND, FOUND, DELETED, MISSING]
    assert offsets.tolist() == [0, 1, 4097, 4097, 4097, 4097]
    assert values.tobytes() == b"x" + large
    with pytest.raises(ValueError, match="any size"):
        dictionary.lookup(keys(1))


def test_an_empty_dictionary_has_nothing(write: Any) -> None:
    for row_bytes in (0, 4):
        dictionary = write({}, row_bytes=row_bytes)
        dictionary.verify()
        assert dictionary.lookup_values(keys(0, 1))[0].tolist() == [MISSING, MISSING]
        assert dictionary.lookup_values(keys())[1].tolist() == [0]


def test_mapped_read_and_inside_a_tar_are_the_same(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    some = np.unique(random.integers(0, 2**64, 60_000, dtype=np.uint64))
    values = random.integers(0, 256, (len(some), 64), dtype=np.uint8)
    facts = write_dictionary(tmp_path / "a.dict", some, values, dtype=1, dim=16, threads=2)
    assert facts["bytes"] == (tmp_path / "a.dict").stat().st_size
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "a.dict", "first.dict")
        tar.add(tmp_path / "a.dict", "second.dict")
    with tarfile.open(tmp_path / "a.tar") as tar:
        inside = tar.getmember("second.dict")
    asked = np.concatenate([some[::2], some[:1000] + np.uint64(1)])
    expected = np.concatenate([values[::2], np.zeros((1000, 64), np.uint8)])
    for memory in (False, True):
        for dictionary in (
            Dictionary(tmp_path / "a.dict", memory=memory),
            Dictionary(tmp_path / "a.tar", offset=inside.offset_data, length=inside.size, memory=memory),
        ):
            dictionary.verify()
            status, rows = dictionary.lookup(asked, threads=2)
            assert np.array_equal(rows, expected)
            assert status.sum() == 1000
            assert dictionary.file_bytes == facts["bytes"]
            assert dictionary.resident_bytes > 0
            assert np.array_equal(np.sort(dictionary.keys()), some)


def test_views_keep_the_dictionary_alive(write: Any) -> None:
    view = write({1: b"aaaa"}).values()
    assert view.tobytes() == b"aaaa"
    assert not view.flags.writeable


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (np.array([1], np.int64), "uint64"),
        (np.array([[1]], np.uint64), "uint64"),
        (np.array([1, 2, 3], np.uint64)[::2], "contiguous"),
        (3, "array"),
    ],
)
def test_keys_of_another_type_are_refused(write: Any, bad: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        write({1: b"aaaa"}).lookup(bad)


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    row = np.zeros((2, 4), np.uint8)
    path = tmp_path / "x"
    with pytest.raises(ValueError, match="key 5 comes twice"):
        write_dictionary(path, keys(5, 5), row, dtype=0, dim=0)
    with pytest.raises(ValueError, match="both written and deleted"):
        write_dictionary(path, keys(5, 6), row, dtype=0, dim=0, deleted=keys(6))
    with pytest.raises(ValueError, match="bucket"):
        write_dictionary(path, keys(5, 6), row, dtype=0, dim=0, first_bucket=0, last_bucket=1)
    with pytest.raises(ValueError, match="8 bytes"):
        write_dictionary(path, keys(5, 6), row, dtype=1, dim=2)
    with pytest.raises(ValueError, match="descend"):
        write_dictionary(path, keys(5, 6), (keys(0, 9, 8), np.zeros(8, np.uint8)), dtype=0, dim=0)
    assert not path.exists()
    with pytest.raises(DictionaryError, match="nowhere"):
        write_dictionary(tmp_path / "nowhere" / "x", keys(5, 6), row, dtype=0, dim=0)


def test_layers_must_be_of_one_kind(write: Any) -> None:
    with pytest.raises(ValueError, match="rows of 2 bytes"):
        Layers([write({1: b"aaaa"}), write({1: b"aa"}, row_bytes=2)])
    with pytest.raises(ValueError, match="at least one"):
        Layers([])
