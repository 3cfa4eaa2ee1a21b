"""A SequenceFile as Cube's tool reads it, in plain Python from its description. Independent of the native one."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

CLASS = b"org.apache.hadoop.io.BytesWritable"
HEADER = b"SEQ\x06" + b'"' + CLASS + b'"' + CLASS + bytes(6)


def records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Keys and values. Stops without a word where the file ends, as Cube's does."""
    data = path.read_bytes()
    assert data[: len(HEADER)] == HEADER
    at = len(HEADER) + 16
    sync = data[len(HEADER) : at]
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        at += 4
        if length == -1:
            assert data[at : at + 16] == sync
            at += 16
            continue
        (key_length,) = struct.unpack_from(">i", data, at)
        at += 4
        buffer = data[at : at + length]
        at += length
        yield struct.unpack("<Q", buffer[:key_length])[0], buffer[key_length:]


def written(rows: list[tuple[int, bytes]], sync: bytes) -> bytes:
    """The bytes that Cube's writer makes."""
    data, since = HEADER + sync, 0
    for key, value in rows:
        record = struct.pack("<Q", key) + value
        data += struct.pack(">II", len(record), 8) + record
        since += len(record)
        if since >= 2000:
            data, since = data + b"\xff\xff\xff\xff" + sync, 0
    return data
