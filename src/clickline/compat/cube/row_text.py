"""Rows as text, one `KEY:VALUE` a line, to and from SequenceFiles; and a dump of values in hexadecimal.

KEY is a decimal number below 2^64. The caller says what VALUE is: `text` is the bytes themselves, as Cube's
kv_to_seqfile has them; `fp32` is numbers with spaces or commas between; `hex` is any bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Literal

import numpy as np

from clickline.compat.cube.sequence_files import read_chunks, writing
from clickline.errors import DataError

Values = Literal["text", "fp32", "hex"]
_LONGEST_LINE = 256 << 20
_BATCH = 4096
_KEY = re.compile(rb"[0-9]{1,20}")
_HEX = re.compile(rb"(?:[0-9a-fA-F]{2})*")


def from_text(
    source: str | os.PathLike[str], out: str | os.PathLike[str], *, values: Values = "text", seed: int | None = None
) -> int:
    """Make a SequenceFile; gives the number of rows. A bad line is an error, and then there is no file."""
    with writing(out, seed=seed) as writer:
        rows = _rows(source, values)
        while batch := list(islice(rows, _BATCH)):
            keys = np.array([key for key, _ in batch], np.uint64)
            offsets = np.cumsum([0] + [len(value) for _, value in batch], dtype=np.uint64)
            writer.append(keys, np.frombuffer(b"".join(value for _, value in batch), np.uint8), offsets)
        return writer.records


def to_text(source: str | os.PathLike[str], *, values: Values = "text") -> Iterator[bytes]:
    """The lines, each with its end, of a SequenceFile or a directory of them."""
    shown = _SHOWN[values]
    for key, value in rows_of(source):
        try:
            yield b"%d:%s\n" % (key, shown(value))
        except ValueError as error:
            raise DataError(f"the value of key {key} in '{source}' cannot be written as {values}: {error}") from None


def dump(source: str | os.PathLike[str], *, most: int | None = None) -> Iterator[str]:
    """Lines as Cube's seq_reader prints them: `key: K , value: HEX`."""
    for key, value in islice(rows_of(source), most):
        yield f"key: {key} , value: {value.hex()}"


def rows_of(source: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """Keys and values, one by one."""
    for keys, offsets, values in read_chunks(source):
        data, places = values.tobytes(), offsets.tolist()
        for place, key in enumerate(keys.tolist()):
            yield key, data[places[place] : places[place + 1]]


def _rows(source: str | os.PathLike[str], values: Values) -> Iterator[tuple[int, bytes]]:
    parsed = _PARSED[values]
    for number, line in enumerate(_lines(source), 1):
        key, colon, value = line.partition(b":")
        try:
            if not colon:
                raise ValueError("there is no colon between key and value")
            if not _KEY.fullmatch(key.strip()) or int(key) >= 2**64:
                raise ValueError(f"the key must be a decimal number below 2^64, got '{_short(key)}'")
            yield int(key), parsed(value)
        except ValueError as error:
            raise DataError(f"'{source}', line {number}: {error}") from None


def _lines(source: str | os.PathLike[str]) -> Iterator[bytes]:
    try:
        with open(source, "rb") as file:  # noqa: PTH123  (any path-like)
            while line := file.readline(_LONGEST_LINE):
                # readline() stopped at the limit, so the rest of the line would be taken for a line of its own.
                if len(line) == _LONGEST_LINE:
                    raise DataError(f"'{source}' has a line of more than {_LONGEST_LINE} bytes")
                yield line.removesuffix(b"\n")
    except OSError as error:
        raise DataError(f"'{source}' cannot be read: {error.strerror}") from None


def _numbers(value: bytes) -> bytes:
    words: Iterable[str] = value.decode("ascii", "replace").replace(",", " ").split()
    numbers = np.array([_number(word) for word in words], np.float64)
    with np.errstate(over="ignore"):
        rounded = numbers.astype("<f4")
    # An infinity may be given as such; a finite number must not become one.
    if (np.isinf(rounded) & ~np.isinf(numbers)).any():
        raise ValueError("a number is too large for fp32")
    return rounded.tobytes()


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"'{_short(word.encode())}' is not a number") from None


def _bytes(value: bytes) -> bytes:
    if not _HEX.fullmatch(value.strip()):
        raise ValueError(f"'{_short(value)}' is not pairs of hexadecimal digits")
    return bytes.fromhex(value.decode("ascii"))


def _as_line(value: bytes) -> bytes:
    if b"\n" in value:
        raise ValueError("it holds an end of line; take fp32 or hex")
    return value


def _as_numbers(value: bytes) -> bytes:
    if len(value) % 4:
        raise ValueError(f"{len(value)} bytes are not a whole number of fp32")
    return b" ".join(str(number).encode() for number in np.frombuffer(value, "<f4"))


def _short(text: bytes) -> str:
    shown = text[:40].decode("utf-8", "backslashreplace")
    return shown + ("…" if len(text) > 40 else "")


_PARSED: dict[Values, Callable[[bytes], bytes]] = {"text": bytes, "fp32": _numbers, "hex": _bytes}
_SHOWN: dict[Values, Callable[[bytes], bytes]] = {
    "text": _as_line,
    "fp32": _as_numbers,
    "hex": lambda value: value.hex().encode(),
}
