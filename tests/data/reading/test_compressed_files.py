"""Compressed logs are recognised by content, and a damaged one is an error, never a short epoch."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from clickline.data.sources.compression import Stream, decompressed
from clickline.errors import DataError

CONTENT = random.Random(1).randbytes(300_000) + b"line\n" * 200_000


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def members(pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda data: pack(data[:1000]) + pack(b"") + pack(data[1000:])


SKIPPABLE = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
PACKS = {
    "plain": bytes,
    "gzip": gzip.compress,
    "gzip members": members(gzip.compress),
    "gzip padded": lambda data: gzip.compress(data) + bytes(512),
    "zstd": zstd,
    "zstd frames": members(zstd),
    "zstd skippable": lambda data: SKIPPABLE + zstd(data) + SKIPPABLE,
}


def read(packed: bytes, *, offset: int = 0, piece: int = 1 << 18) -> list[bytes]:
    return list(decompressed(io.BytesIO(packed), path="logs/x.gz", offset=offset, piece=piece))


@pytest.mark.parametrize("kind", PACKS)
def test_content_from_any_offset(kind: str) -> None:
    packed = PACKS[kind](CONTENT)
    for offset in (0, 3, 4, 5, 1000, 270_000, len(CONTENT) - 1, len(CONTENT)):
        assert b"".join(read(packed, offset=offset)) == CONTENT[offset:]


@pytest.mark.parametrize("kind", PACKS)
def test_pieces_are_bounded(kind: str) -> None:
    packed = PACKS[kind](bytes(4 << 20))
    assert max(len(piece) for piece in read(packed, piece=4096)) <= 4096


@pytest.mark.parametrize("kind", PACKS)
def test_empty_content(kind: str) -> None:
    assert read(PACKS[kind](b"")) == []


def test_empty_and_tiny_files() -> None:
    assert read(b"") == []
    assert read(b"\x1f") == [b"\x1f"]


@pytest.mark.parametrize("kind", ["gzip", "gzip members", "zstd", "zstd frames"])
@pytest.mark.parametrize("lost", [1, 5, 200_000])
def test_truncated(kind: str, lost: int) -> None:
    packed = PACKS[kind](CONTENT)[:-lost]
    with pytest.raises(DataError, match=rf"'logs/x\.gz' is truncated: .* at byte {len(packed)}\. Copy or write"):
        read(packed)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_truncated_right_at_the_start(kind: str) -> None:
    with pytest.raises(DataError, match=r"is truncated"):
        read(PACKS[kind](CONTENT)[:6])


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_damaged(kind: str) -> None:
    packed = bytearray(PACKS[kind](b"some line of text\n" * 10_000))
    packed[len(packed) // 2] ^= 0xFF
    packed[-6] ^= 0xFF
    with pytest.raises(DataError, match=r"'logs/x\.gz' is damaged: bad \w+ data near byte \d+"):
        read(bytes(packed))


@pytest.mark.parametrize("garbage", [b"x", b"garbage at the end", b"\x1f", b"\0\0garbage"])
def test_garbage_after_gzip(garbage: bytes) -> None:
    with pytest.raises(DataError, match=r"'logs/x\.gz' has something that is not gzip after a gzip member, near byte"):
        read(gzip.compress(CONTENT) + garbage)


def test_garbage_after_zstd() -> None:
    with pytest.raises(DataError, match=r"'logs/x\.gz' is damaged"):
        read(zstd(CONTENT) + b"garbage at the end")


@pytest.mark.parametrize("kind", ["plain", "gzip", "zstd"])
def test_offset_past_the_end(kind: str) -> None:
    with pytest.raises(DataError, match=rf"only {len(CONTENT)} bytes, but reading should resume at {len(CONTENT) + 1}"):
        read(PACKS[kind](CONTENT), offset=len(CONTENT) + 1)


def test_as_a_file_object() -> None:
    stream = io.BufferedReader(Stream(decompressed(io.BytesIO(gzip.compress(b"a\nb\nc")), path="x")))
    assert stream.readline() == b"a\n"
    assert stream.read() == b"b\nc"
    assert stream.read() == b""
