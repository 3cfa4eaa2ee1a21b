"""Rows as numbers: encodings, and a table's weights written for serving."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clickline._native import Dictionary, Table, bucket_of, decode_rows, encode_rows

FP32, FP16, U8 = 1, 2, 3


def test_encodings_are_as_exact_as_they_can_be() -> None:
    rows = np.random.default_rng(0).normal(0, 0.1, (100, 13)).astype(np.float32)
    assert np.array_equal(decode_rows(encode_rows(rows, FP32), FP32, 13), rows)
    assert np.array_equal(encode_rows(rows, FP16).view(np.float16), rows.astype(np.float16))
    assert np.array_equal(decode_rows(encode_rows(rows, FP16), FP16, 13), rows.astype(np.float16).astype(np.float32))
    small = encode_rows(rows, U8)
    assert small.shape == (100, 8 + 13)
    assert np.array_equal(small[:, :8].copy().view(np.float32), np.stack([rows.min(1), rows.max(1)], 1))
    step = np.ptp(rows, axis=1, keepdims=True) / 255
    assert (np.abs(decode_rows(small, U8, 13) - rows) <= step * 0.5001).all()


def test_numbers_that_are_not_finite_do_not_spoil_a_row() -> None:
    rows = np.array([[np.nan, 1, 2], [np.inf, -np.inf, 0], [5, 5, 5]], np.float32)
    back = decode_rows(encode_rows(rows, U8), U8, 3)
    assert np.isfinite(back).all()
    assert back[0].tolist() == pytest.approx([0, 1, 2], abs=0.01)
    assert back[2].tolist() == [5, 5, 5]


@pytest.mark.parametrize("dtype", [0, 4])
def test_other_types_are_refused(dtype: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="dtype must be"):
        encode_rows(np.zeros((1, 2), np.float32), dtype)
    with pytest.raises(ValueError, match="dtype must be"):
        Table(dim=2).write_dictionary(tmp_path / "x", dtype=dtype)


def trained(dim: int = 5) -> tuple[Table, np.ndarray]:
    table = Table(dim=dim, optimizer="adam")
    random = np.random.default_rng(1)
    keys = np.unique(random.integers(0, 2**64, 3000, dtype=np.uint64))
    ones = np.ones(len(keys), np.float32)
    grads = random.normal(0, 1, (len(keys), dim)).astype(np.float32)
    table.push(keys, grads, ones, ones, np.zeros(len(keys), np.uint16), tick=1)
    return table, keys


@pytest.mark.parametrize("dtype", [FP32, FP16, U8])
def test_a_tables_weights_are_what_is_served(dtype: int, tmp_path: Path) -> None:
    table, keys = trained()
    facts = table.write_dictionary(tmp_path / "rows", dtype=dtype, threads=2)
    dictionary = Dictionary(tmp_path / "rows")
    dictionary.verify()
    status, rows = dictionary.lookup(keys)
    assert facts["count"] == len(keys) == len(table)
    assert not status.any()
    assert np.array_equal(rows, encode_rows(table.rows(keys), dtype))
    assert (dictionary.dtype, dictionary.dim) == (dtype, 5)


def test_a_table_can_be_written_by_buckets(tmp_path: Path) -> None:
    table, keys = trained()
    table.write_dictionary(tmp_path / "part", dtype=FP32, first_bucket=1000, last_bucket=1017)
    dictionary = Dictionary(tmp_path / "part")
    dictionary.verify()
    assert set(dictionary.keys().tolist()) == {key for key in keys.tolist() if 1000 <= bucket_of(key) < 1017}
