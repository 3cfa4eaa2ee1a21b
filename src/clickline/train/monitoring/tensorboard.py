"""Event files that TensorBoard reads, written without TensorBoard.

An event file is a sequence of TFRecords (length, masked CRC-32C of the length, payload, masked CRC-32C of the
payload), each an `Event` protobuf message. Scalars need five fields of it, so they are encoded here rather than by
a package of 50 MB.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            # The Castagnoli polynomial, its bits reversed: zlib has only the other CRC-32.
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _crc_table()


def masked_crc32c(data: bytes) -> int:
    """CRC-32C, rotated and offset as TFRecord wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message(field: int, payload: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(payload)) + payload


class EventWriter:
    """Appends scalars to one event file in `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}"
        self._file = (directory / name).open("ab")
        # Tags are field << 3 | wire type. Event: wall_time 1 (double), step 2 (varint), file_version 3, summary 5.
        # Summary: value 1. Value: tag 1, simple_value 2 (float).
        self._record(struct.pack("<Bd", 1 << 3 | 1, now) + _message(3, b"brain.Event:2"))

    def scalars(self, *, step: int, values: dict[str, float]) -> None:
        """One event holding a value for each tag."""
        summary = b"".join(
            _message(1, _message(1, tag.encode()) + struct.pack("<Bf", 2 << 3 | 5, value))
            for tag, value in values.items()
        )
        event = struct.pack("<Bd", 1 << 3 | 1, time.time()) + _varint(2 << 3) + _varint(step) + _message(5, summary)
        self._record(event)

    def _record(self, payload: bytes) -> None:
        length = struct.pack("<Q", len(payload))
        crcs = struct.pack("<I", masked_crc32c(length)), struct.pack("<I", masked_crc32c(payload))
        self._file.write(length + crcs[0] + payload + crcs[1])
        # TensorBoard follows the file while the run goes on.
        self._file.flush()

    def close(self) -> None:
        self._file.close()
