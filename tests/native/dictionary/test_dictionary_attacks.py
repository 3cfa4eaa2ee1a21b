"""What a damaged or malicious dictionary cannot do: crash a reader, read what is not in it, or pass verify()."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickline._native import Dictionary, DictionaryError, Layers, merge_dictionaries, xxh64

KEYS = range(50)
ASKED = np.arange(80, dtype=np.uint64)


@pytest.fixture(params=[0, 5], ids=["any size", "rows"])
def good(request: pytest.FixtureRequest, write: Any) -> bytes:
    rows = {key: None if key % 7 == 0 else bytes([key] * 5) for key in KEYS}
    return Path(write(rows, row_bytes=request.param).path).read_bytes()


def signed(data: bytearray) -> bytes:
    data[120:128] = struct.pack("<Q", xxh64(bytes(data[:120])))
    return bytes(data)


def sections(data: bytes) -> list[int]:
    """Where each begins, and the end."""
    (row_bytes,) = struct.unpack_from("<I", data, 20)
    count, deleted, blocks, deleted_blocks, values = struct.unpack_from("<5Q", data, 32)
    places, at = [], 128
    for size in (4 * blocks + 4, 8 * count, 4 * deleted_blocks + 4, 8 * deleted, 0 if row_bytes else 8 * count + 8):
        places.append(at)
        at = -(-(at + size) // 64) * 64
    return [*places, at, at + values]


def use(path: Path) -> None:
    """Everything a reader does; wrong rows are fine, within the file's values."""
    for memory in (False, True):
        dictionary = Dictionary(path, memory=memory)
        for source in (dictionary, Layers([dictionary, dictionary])):
            status, offsets, values = source.lookup_values(ASKED)
            assert set(status.tolist()) <= {0, 1, 2}
            assert offsets[-1] == len(values)
            if dictionary.row_bytes:
                source.lookup(ASKED)
        try:
            merge_dictionaries(
                path.with_suffix(".made"), [dictionary], first_bucket=0, last_bucket=4096, keep_deleted=True
            )
        except DictionaryError:
            assert not path.with_suffix(".made").exists()


def test_every_flipped_byte_is_detected(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        with pytest.raises(DictionaryError, match="bad: "):
            Dictionary(path).verify()
        if at >= 128:
            Dictionary(path).lookup_values(ASKED)


def test_a_file_cut_anywhere_or_grown_is_refused(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    places = sections(good)
    assert places[-1] == len(good)
    for end in {0, 1, 127, 128, *places[:-1], *(place - 1 for place in places)}:
        path.write_bytes(good[:end])
        with pytest.raises(DictionaryError):
            Dictionary(path)
    path.write_bytes(good + b"\0")
    with pytest.raises(DictionaryError, match="promises"):
        Dictionary(path)


def forged_numbers(good: bytes) -> Iterator[bytes]:
    for at, code in [*((at, "<I") for at in range(8, 32, 4)), *((at, "<Q") for at in range(32, 72, 8))]:
        largest = 2 ** (8 * struct.calcsize(code)) - 1
        for number in (0, 1, 4097, 2**31, 2**32 - 1, 2**32, 2**61, 2**63, largest - 7, largest):
            if number <= largest:
                data = bytearray(good)
                struct.pack_into(code, data, at, number)
                yield signed(data)


def test_sizes_that_do_not_add_up_or_overflow_are_refused(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    for data in forged_numbers(good):
        path.write_bytes(data)
        try:
            dictionary = Dictionary(path)
        except DictionaryError:
            continue
        assert dictionary.file_bytes == len(good)  # a number that changes no size, as dim
        dictionary.lookup_values(ASKED)


@pytest.mark.parametrize("section", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("filling", [b"\xff", b"\x01\x02\x03", b"\x80\0\0\0"])
def test_garbage_in_a_section_gives_wrong_rows_at_worst(
    good: bytes, tmp_path: Path, section: int, filling: bytes
) -> None:
    begin, end = sections(good)[section : section + 2]
    data = good[:begin] + (filling * (end - begin))[: end - begin] + good[end:]
    (tmp_path / "bad").write_bytes(data)
    use(tmp_path / "bad")
    if begin < end:
        with pytest.raises(DictionaryError):
            Dictionary(tmp_path / "bad").verify()


def test_values_that_overlap_are_not_copied_in_bulk(write: Any, tmp_path: Path) -> None:
    data = bytearray(Path(write({key: bytes(100) for key in KEYS}, row_bytes=0).path).read_bytes())
    begin, end = sections(bytes(data))[4:6]
    for at in range(begin, begin + 8 * len(KEYS) + 8, 16):
        struct.pack_into("<Q", data, at, 0)
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(DictionaryError, match="offsets"):
        merge_dictionaries(
            tmp_path / "made", [Dictionary(tmp_path / "bad")], first_bucket=0, last_bucket=4096, keep_deleted=True
        )
    assert end > begin


def test_a_part_that_cannot_be_mapped_says_why(good: bytes, tmp_path: Path) -> None:
    (tmp_path / "shifted").write_bytes(b"x" * 7 + good)
    with pytest.raises(DictionaryError, match="multiple of 64"):
        Dictionary(tmp_path / "shifted", offset=7)
    Dictionary(tmp_path / "shifted", offset=7, memory=True).verify()
    with pytest.raises(DictionaryError, match="wanted"):
        Dictionary(tmp_path / "shifted", offset=2**63)
