"""SequenceFiles: literal bytes, what Cube's reader makes of ours and we of Cube's writer's, and hostile ones."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickline._native import SequenceReader, SequenceWriter
from clickline.compat.cube.row_text import rows_of
from clickline.compat.cube.sequence_files import read_all, read_chunks, writing
from clickline.errors import DataError
from support.fuzz.budget import budgeted
from support.plain_sequence_files import HEADER, records, written

SYNC = b"0123456789abcdef"
rows = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.binary(max_size=1200)), max_size=12)


def write(path: Path, given: list[tuple[int, bytes]]) -> None:
    writer = SequenceWriter(path, sync=SYNC)
    offsets = np.cumsum([0] + [len(value) for _, value in given], dtype=np.uint64)
    values = np.frombuffer(b"".join(value for _, value in given), np.uint8)
    writer.append(np.array([key for key, _ in given], np.uint64), values, offsets)
    writer.finish()


def test_the_bytes_are_those_of_the_description(tmp_path: Path) -> None:
    write(tmp_path / "f", [(0x0102030405060708, b"value")])
    assert (tmp_path / "f").read_bytes() == (
        b'SEQ\x06"org.apache.hadoop.io.BytesWritable"org.apache.hadoop.io.BytesWritable\0\0\0\0\0\0'
        b"0123456789abcdef"
        b"\x00\x00\x00\x0d\x00\x00\x00\x08\x08\x07\x06\x05\x04\x03\x02\x01value"
    )


def test_marks_follow_each_2000_bytes_of_keys_and_values(tmp_path: Path) -> None:
    keys = np.arange(100, dtype=np.uint64)
    writer = SequenceWriter(tmp_path / "f", sync=SYNC)
    writer.append(keys, np.zeros((100, 92), np.uint8))  # 100 bytes each: a mark after the 20th, 40th, …
    writer.finish()
    data = (tmp_path / "f").read_bytes()
    front, block = len(HEADER) + 16, 20 * 108 + 20
    assert len(data) == front + 5 * block
    assert [data[front + i * block - 20 : front + i * block] for i in range(1, 6)] == [b"\xff\xff\xff\xff" + SYNC] * 5


@budgeted
@given(rows)
def test_the_reader_of_cube_reads_what_we_write(tmp_path: Path, given: list[tuple[int, bytes]]) -> None:
    write(tmp_path / "f", given)
    assert (tmp_path / "f").read_bytes() == written(given, SYNC)
    assert list(records(tmp_path / "f")) == given


@budgeted
@given(rows)
def test_we_read_what_the_writer_of_cube_writes(tmp_path: Path, given: list[tuple[int, bytes]]) -> None:
    (tmp_path / "f").write_bytes(written(given, SYNC))
    assert list(rows_of(tmp_path / "f")) == given


@budgeted
@given(rows, st.integers(1, 3), st.randoms(use_true_random=False))
def test_a_damaged_file_raises_or_reads_and_nothing_else(
    tmp_path: Path, given: list[tuple[int, bytes]], damages: int, chance: random.Random
) -> None:
    data = bytearray(written(given, SYNC))
    for _ in range(damages):
        data[chance.randrange(len(data))] = chance.randrange(256)
    (tmp_path / "f").write_bytes(data[: chance.randrange(len(data) + 1)])
    try:
        found = list(rows_of(tmp_path / "f"))
    except DataError as error:
        assert str(tmp_path / "f") in str(error)
    else:
        assert len(found) <= len(given) + len(data) // 16


def test_a_length_is_checked_before_memory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(HEADER + SYNC + struct.pack(">II", 60_000_000, 8) + b"short")
    with pytest.raises(DataError, match="60000000 bytes is expected, but only 5 are left"):
        list(rows_of(tmp_path / "f"))


def test_a_file_by_hadoop_itself_is_told_apart(tmp_path: Path) -> None:
    record = struct.pack(">I", 8) + b"keykeyke" + struct.pack(">I", 3) + b"val"
    (tmp_path / "f").write_bytes(HEADER + SYNC + struct.pack(">II", len(record), 12) + record)
    with pytest.raises(DataError, match="Hadoop's own writer puts a length before each key"):
        list(rows_of(tmp_path / "f"))


def test_chunks_are_as_small_as_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "f", [(key, b"v" * 100) for key in range(1000)])
    reader = SequenceReader(tmp_path / "f")
    sizes = []
    while (chunk := reader.read(records=50, max_bytes=1000)) is not None:
        sizes.append(len(chunk[0]))
    assert sizes == [10] * 100
    assert reader.position == reader.size
    assert reader.sync == SYNC


def test_a_directory_is_read_file_by_file(tmp_path: Path) -> None:
    write(tmp_path / "part-1", [(1, b"a"), (2, b"bb")])
    write(tmp_path / "part-0", [(0, b"")])
    write(tmp_path / "part-2", [])
    (tmp_path / "_SUCCESS").touch()
    keys, offsets, values = read_all(tmp_path)
    assert (keys.tolist(), offsets.tolist(), values.tobytes()) == ([0, 1, 2], [0, 0, 1, 3], b"abb")
    (tmp_path / "part-3").write_text("no such file")
    with pytest.raises(DataError, match="part-3"):
        list(read_chunks(tmp_path))
    (tmp_path / "sub").mkdir()
    with pytest.raises(DataError, match="'sub' is a directory"):
        list(read_chunks(tmp_path))


def test_what_fails_while_it_is_written_has_no_name(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("before")
    with pytest.raises(ZeroDivisionError), writing(tmp_path / "f") as writer:
        writer.append(np.arange(3, dtype=np.uint64), np.zeros((3, 4), np.uint8))
        raise ZeroDivisionError
    assert [item.name for item in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_text() == "before"


def test_a_seed_gives_the_same_bytes_and_none_gives_others(tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", None)):
        with writing(tmp_path / name, seed=seed) as writer:
            writer.append(np.arange(300, dtype=np.uint64), np.zeros((300, 4), np.uint8))
    same = (tmp_path / "a").read_bytes()
    assert (tmp_path / "b").read_bytes() == same
    assert (tmp_path / "c").read_bytes() != same


def test_wrong_arrays_are_refused(tmp_path: Path) -> None:
    writer = SequenceWriter(tmp_path / "f", sync=SYNC)
    keys, values = np.arange(2, dtype=np.uint64), np.zeros(8, np.uint8)
    for offsets in ([0, 9, 9], [4, 2, 8], [0, 8]):
        with pytest.raises(ValueError, match="offsets must"):
            writer.append(keys, values, np.array(offsets, np.uint64))
    with pytest.raises(ValueError, match="values must be"):
        writer.append(keys, np.zeros((3, 4), np.uint8))
    with pytest.raises(ValueError, match="16 bytes"):
        SequenceWriter(tmp_path / "g", sync=b"short")
    assert writer.records == 0
