"""What a damaged or malicious table file cannot do: load, change the table, or make it allocate what it claims."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickline._native import Table, bucket_of, xxh64
from clickline.errors import CheckpointError

DIM = 2


def table() -> Table:
    return Table(dim=DIM, optimizer="adagrad", policies=[(1, 1.0, 0, 0.0, 0.1, 1.0), (3, 1.0, 0, 0.0, 0.1, 1.0)])


@pytest.fixture
def good(push: Any, tmp_path: Path) -> bytes:
    written = table()
    push(written, np.arange(1, 40))
    push(written, np.arange(100, 120), slot=1)
    written.save(tmp_path / "good")
    return (tmp_path / "good").read_bytes()


@pytest.fixture
def refused(push: Any, tmp_path: Path) -> Callable[[bytes], str]:
    """Loads the bytes; they must be refused and the table stay as it was. Gives the message."""

    def refused(data: bytes) -> str:
        target = table()
        push(target, [2**40 + 1])
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(CheckpointError) as error:
            target.load(tmp_path / "bad")
        assert target.keys().tolist() == [2**40 + 1]
        assert target.step == 1
        assert target.memory()["waiting"] == 0
        assert target.memory()["total_bytes"] < 4 << 20
        return str(error.value)

    return refused


def sections(data: bytes) -> list[int]:
    """Where each begins, and the end."""
    length = struct.unpack("<Q", data[16:24])[0]
    header = json.loads(data[32 : 32 + length])
    rows, waiting, at = header["rows"], header["waiting"], 32 + length
    places = [at]
    for size in (8 * rows, 8 * waiting, 8 * rows, 4 * rows, 4 * DIM * rows, 4 * DIM * rows, 4 * waiting, 2 * rows,
                 2 * waiting, 2 * waiting):  # fmt: skip
        at += size
        places.append(at)
    return places


def signed(data: bytes, change: Callable[[dict[str, Any]], None] = lambda header: None) -> bytes:
    """With its header changed and all checksums made right again, as an attacker would."""
    length = struct.unpack("<Q", data[16:24])[0]
    header, body = json.loads(data[32 : 32 + length]), data[32 + length :]
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-(32 + len(text)) % 64)
    return struct.pack("<8sIIQQ", b"CLKTABLE", 1, 0, len(text), xxh64(text)) + text + body


def rechecked(data: bytes) -> bytes:
    """With the buckets' checksums made right again."""
    places = sections(data)[:-1]
    rows = [True, False, True, True, True, True, False, True, False, False]
    widths = [8, 8, 8, 4, 4 * DIM, 4 * DIM, 4, 2, 2, 2]

    def change(header: dict[str, Any]) -> None:
        at = list(places)
        for bucket in range(4096):
            checksum = 0
            for i, width in enumerate(widths):
                size = width * header["bucket_rows" if rows[i] else "bucket_waiting"][bucket]
                checksum = xxh64(data[at[i] : at[i] + size], checksum)
                at[i] += size
            header["checksums"][bucket] = f"{checksum:016x}"

    return signed(data, change)


def test_the_tools_of_these_tests_make_files_that_load(good: bytes, tmp_path: Path) -> None:
    for data in (good, signed(good), rechecked(good)):
        (tmp_path / "file").write_bytes(data)
        target = table()
        target.load(tmp_path / "file")
        assert len(target) == 39


def test_cut_at_every_section(good: bytes, refused: Any) -> None:
    lengths = {0, 1, 8, 31, 32, 33, 100, len(good) - 1}
    for place in sections(good)[:-1]:
        lengths |= {place - 1, place, place + 1}
    for length in sorted(lengths):
        assert "table file" in refused(good[:length])


def test_bytes_after_the_end(good: bytes, refused: Any) -> None:
    assert "promises" in refused(good + b"\0")


def test_a_flipped_byte_anywhere(good: bytes, refused: Any) -> None:
    places = sections(good)
    spots = [*range(32), 32, 40, 5000, *places[:-1], *(end - 1 for end in places[1:])]
    spots += np.random.default_rng(0).integers(0, len(good), 60).tolist()
    for spot in spots:
        refused(good[:spot] + bytes([good[spot] ^ 0x20]) + good[spot + 1 :])


def test_wrong_magic_version_and_flags(good: bytes, refused: Any) -> None:
    assert "does not begin with CLKTABLE" in refused(b"PK\x03\x04" + good[4:])
    assert "format version 2" in refused(good[:8] + b"\x02" + good[9:])
    assert "must be 0" in refused(good[:12] + b"\x01" + good[13:])


@pytest.mark.parametrize("length", [0, 1 << 20, (1 << 20) + 32, 1 << 40, 2**64 - 32, 2**64 - 1])
def test_header_lengths_that_lie(length: int, good: bytes, refused: Any) -> None:
    refused(good[:16] + struct.pack("<Q", length) + good[24:])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("rows", 2**64 - 1, "do not add up"),
        ("rows", 38, "do not add up"),
        ("waiting", 10**12, "do not add up"),
        ("dim", 3, "dim 3"),
        ("dim", 2**32 + 2, "above 65535"),
        ("dim", -2, "number expected"),
        ("dim", 2.0, "expected"),
        ("dim", "2", "number expected"),
        ("states", 2, "adagrad has 1 states, not 2"),
        ("optimizer", "adam", "optimizer adam"),
        ("optimizer", "../../etc", "expected"),
        ("seed", 2**64, "beyond 2"),
        ("step", None, "number expected"),
        ("checksums", ["0" * 16] * 4095, "4096 buckets expected but got 4095"),
        ("checksums", ["0" * 16] * 4097, "more than 4096"),
        ("checksums", ["0" * 15] * 4096, "16 hexadecimal digits"),
        ("bucket_rows", [], "number expected"),
        ("surprise", 1, "unknown field 'surprise'"),
    ],
)
def test_forged_header_fields(field: str, value: object, message: str, good: bytes, refused: Any) -> None:
    assert message in refused(signed(good, lambda header: header.update({field: value})))


def test_missing_and_repeated_fields(good: bytes, refused: Any) -> None:
    assert "field 'step' is missing" in refused(signed(good, lambda header: header.pop("step")))
    text = b'{"dim":2,"dim":2}'.ljust(32)
    data = struct.pack("<8sIIQQ", b"CLKTABLE", 1, 0, 32, xxh64(text)) + text
    assert "field 'dim' comes twice" in refused(data)


def test_huge_counts_allocate_nothing(good: bytes, refused: Any) -> None:
    def huge(count: int) -> Callable[[dict[str, Any]], None]:
        return lambda header: header.update(rows=4096 * count % 2**64, bucket_rows=[count] * 4096)

    assert "promises" in refused(signed(good, huge(0xFFFFFF)))
    assert "bucket of 16777216" in refused(signed(good, huge(0x1000000)))
    assert "bucket of" in refused(signed(good, huge(2**52)))  # the sum is 0 again


def test_counts_moved_between_buckets(good: bytes, refused: Any) -> None:
    def move(header: dict[str, Any]) -> None:
        rows = header["bucket_rows"]
        full = next(b for b in range(4096) if rows[b])
        rows[full], rows[full + 1] = rows[full] - 1, rows[full + 1] + 1

    moved = signed(good, move)
    assert "checksum does not match" in refused(moved)
    assert "bucket not its own" in refused(rechecked(moved))


def replaced(data: bytes, section: int, item: bytes) -> bytes:
    at = sections(data)[section]
    return rechecked(data[:at] + item + data[at + len(item) :])


def test_forged_keys(good: bytes, refused: Any) -> None:
    assert "bucket not its own" in refused(replaced(good, 0, struct.pack("<Q", 2**63 + 12345)))
    assert "bucket not its own" in refused(replaced(good, 1, struct.pack("<Q", 2**63 + 12345)))
    assert "waits without a sighting" in refused(replaced(good, 9, b"\0\0"))


def test_keys_that_come_twice_or_wait_with_a_row(push: Any, refused: Any, tmp_path: Path) -> None:
    first = 5
    second = next(key for key in range(first + 1, 10**6) if bucket_of(key) == bucket_of(first))
    written = table()
    push(written, [first, second])
    written.save(tmp_path / "two")
    data = (tmp_path / "two").read_bytes()
    assert "out of order" in refused(replaced(data, 0, struct.pack("<QQ", first, first)))
    assert "out of order" in refused(replaced(data, 0, struct.pack("<QQ", second, first)))
    mixed = table()
    push(mixed, [first])
    push(mixed, [second], slot=1)
    mixed.save(tmp_path / "mixed")
    data = (tmp_path / "mixed").read_bytes()
    assert "waits for a row that it has" in refused(replaced(data, 1, struct.pack("<Q", first)))
