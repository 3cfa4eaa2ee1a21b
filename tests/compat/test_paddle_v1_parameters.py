"""v1 parameter files and LoDTensor files, as their trainers write them, and as nobody should."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickline.compat.paddle_v1.parameter_files import (
    as_rows,
    last_v1_pass,
    read_lod_rows,
    read_lod_tensor,
    read_v1,
    read_v1_pass,
)
from clickline.errors import DataError
from support.fuzz.budget import budgeted
from support.plain_sequence_files import records
from support.processes import run

ROWS = np.arange(6, dtype="<f4").reshape(3, 2)
V1 = b"\0\0\0\0\x04\0\0\0\x06\0\0\0\0\0\0\0" + ROWS.tobytes()
# version 0, one level of detail of 16 bytes, version 0, description of 6 bytes: type 5 (fp32), dimensions 3 and 2
LOD = bytes(4) + struct.pack("<QQ", 1, 16) + bytes(16) + bytes(4) + b"\x06\0\0\0" + b"\x08\x05\x10\x03\x10\x02"
LOD += ROWS.tobytes()
PLAIN = bytes(12) + bytes(4) + b"\x06\0\0\0" + b"\x08\x05\x12\x02\x03\x02" + ROWS.tobytes()


def file(tmp_path: Path, data: bytes) -> Path:
    (tmp_path / "f").write_bytes(data)
    return tmp_path / "f"


def test_a_v1_file_holds_numbers_without_a_shape(tmp_path: Path) -> None:
    numbers = read_v1(file(tmp_path, V1))
    assert numbers.tolist() == [0, 1, 2, 3, 4, 5]
    assert as_rows(numbers, 2, source="f").tolist() == ROWS.tolist()
    with pytest.raises(DataError, match="6 numbers, which do not make rows of 4"):
        as_rows(numbers, 4, source="f")
    assert read_v1(file(tmp_path, V1[:8] + bytes(8))).tolist() == []


def test_the_seeds_file_has_the_size_that_its_listing_says(tmp_path: Path) -> None:
    data = struct.pack("<iIQ", 0, 4, 256 * 256) + bytes(256 * 256 * 4)
    assert len(data) == 262160
    assert as_rows(read_v1(file(tmp_path, data)), 256, source="f").shape == (256, 256)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are less than its header's 16"),
        (b"\x01" + V1[1:], "got version 1 and 4"),
        (V1[:4] + b"\x08" + V1[5:], "got version 0 and 8"),
        (V1[:-1], "should hold 24 bytes of numbers behind its header, but has 23"),
        (V1 + b"x", "but has 25"),
        (V1[:8] + b"\xff" * 8 + V1[16:], "should hold 73786976294838206460 bytes"),
    ],
)
def test_what_is_no_v1_file_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_v1(file(tmp_path, data))


def test_passes_are_read_when_they_are_done(tmp_path: Path) -> None:
    for number, done in (("00000", True), ("00010", True), ("00011", False)):
        (tmp_path / f"pass-{number}").mkdir()
        (tmp_path / f"pass-{number}" / "_emb.w0").write_bytes(V1)
        (tmp_path / f"pass-{number}" / "path.txt").write_text("trainer_config.py")
        if done:
            (tmp_path / f"pass-{number}" / "done").write_text("0")
    last = last_v1_pass(tmp_path)
    assert last.name == "pass-00010"
    assert {name: numbers.size for name, numbers in read_v1_pass(last).items()} == {"_emb.w0": 6}
    with pytest.raises(DataError, match="was not written to its end"):
        read_v1_pass(tmp_path / "pass-00011")
    with pytest.raises(DataError, match="no complete pass"):
        last_v1_pass(last)


@pytest.mark.parametrize("data", [LOD, PLAIN], ids=["one by one, with levels", "packed, without"])
def test_a_lod_tensor_has_its_shape(tmp_path: Path, data: bytes) -> None:
    assert read_lod_rows(file(tmp_path, data)).tolist() == ROWS.tolist()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "ends in its header"),
        (b"\x01" + PLAIN[1:], "version of the LoDTensor must be 0, got 1"),
        (PLAIN[:4] + b"\xff" * 8, "18446744073709551615 levels"),
        (PLAIN[:4] + struct.pack("<QQ", 1, 2**60), "it lacks a level of 1152921504606846976 bytes"),
        (PLAIN[:12] + b"\x02" + PLAIN[13:], "version of the tensor must be 0, got 2"),
        (PLAIN[:16] + b"\xff\xff\xff\xff", "cannot have -1 bytes"),
        (PLAIN[:20] + b"\x08\x03", "it is cut"),
        (PLAIN[:21] + b"\x06" + PLAIN[22:], "must hold fp32, got fp64"),
        (PLAIN[:22] + b"\x1a" + PLAIN[23:], "field 3 is unknown"),
        (PLAIN[:23] + b"\x09" + PLAIN[24:], "its dimensions are cut"),
        (PLAIN[:24] + b"\x04" + PLAIN[25:], "should hold 32 bytes"),
        (PLAIN[:-1], "but has 23"),
        (bytes(16) + b"\x0d\0\0\0\x08\x05\x10" + b"\xff" * 9 + b"\x01", "a shape that cannot be"),
        (bytes(16) + b"\x02\0\0\0\x08\x05", "a shape that cannot be"),
    ],
)
def test_what_is_no_lod_tensor_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_lod_tensor(file(tmp_path, data))


def test_a_table_has_two_dimensions(tmp_path: Path) -> None:
    flat = bytes(16) + b"\x04\0\0\0\x08\x05\x10\x06" + ROWS.tobytes()
    assert read_lod_tensor(file(tmp_path, flat)).shape == (6,)
    with pytest.raises(DataError, match=r"must have 2 dimensions to be a table, got 1: \[6\]"):
        read_lod_rows(file(tmp_path, flat))


@budgeted
@given(st.sampled_from([V1, LOD, PLAIN]), st.lists(st.tuples(st.integers(0, 70), st.integers(0, 255)), max_size=4))
def test_any_file_is_read_or_refused(tmp_path: Path, good: bytes, changes: list[tuple[int, int]]) -> None:
    data = bytearray(good)
    for place, value in changes:
        data[place % len(data)] = value
    for read in (read_v1, read_lod_tensor):
        try:
            found = read(file(tmp_path, bytes(data)))
        except DataError:
            continue
        assert found.nbytes <= len(data)


@pytest.mark.heavy
def test_verbs_make_sequence_files_of_both(tmp_path: Path) -> None:
    (tmp_path / "v1").write_bytes(V1)
    (tmp_path / "lod").write_bytes(LOD)
    assert run("rows", "from-v1", tmp_path / "v1", "--dim", "2", "--out", tmp_path / "1").returncode == 0
    assert run("rows", "from-tensor", tmp_path / "lod", "--out", tmp_path / "2").returncode == 0
    assert list(records(tmp_path / "1")) == [(i, ROWS[i].tobytes()) for i in range(3)]
    assert list(records(tmp_path / "2")) == list(records(tmp_path / "1"))
