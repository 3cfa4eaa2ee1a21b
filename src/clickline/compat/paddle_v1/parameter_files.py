"""PaddlePaddle's parameter files: v1 files and pass directories, and LoDTensor files. Read by mapping; v1 also written.

Sizes are checked against the file before anything is allocated in proportion to them.
"""

from __future__ import annotations

import math
import os
import re
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from clickline.errors import DataError

_V1_HEADER = struct.Struct("<iIQ")
_PASS = re.compile(r"pass-(\d{5,9})", re.ASCII)
_NO_PARAMETERS = ("done", "path.txt")
_FP32 = 5
_TYPES = {0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "fp16", _FP32: "fp32", 6: "fp64"}
_LARGEST_DESCRIPTION = 4096
_MOST_LEVELS = 64
_MOST_DIMS = 8
_LARGEST_DIM = 1 << 40
Floats = NDArray[np.float32]


def read_v1(path: str | os.PathLike[str]) -> Floats:
    """The numbers of a v1 parameter file, which knows their count but no shape."""
    with _opened(path) as file:
        head = file.read(_V1_HEADER.size)
        if len(head) < _V1_HEADER.size:
            raise DataError(f"'{path}' is not a v1 parameter file: {len(head)} bytes are less than its header's 16")
        version, width, count = _V1_HEADER.unpack(head)
        if version != 0 or width != 4:
            raise DataError(
                f"'{path}' is not a v1 parameter file: version 0 and values of 4 bytes are expected, got version "
                f"{version} and {width}"
            )
        return _mapped(path, file, offset=_V1_HEADER.size, shape=(count,))


class V1Writer:
    """Writes a v1 parameter file of `count` numbers; used by `with`, which checks that as many were given."""

    def __init__(self, path: Path, count: int) -> None:
        self._path, self._left = path, count
        self._file = path.open("xb")
        self._file.write(_V1_HEADER.pack(0, 4, count))

    def append(self, numbers: Floats) -> None:
        self._left -= numbers.size
        self._file.write(numbers.astype("<f4", copy=False).tobytes())

    def __enter__(self) -> V1Writer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._file.close()
        if kind is None and self._left:
            raise DataError(f"'{self._path}' lacks {self._left} of its numbers")


def read_v1_pass(directory: str | os.PathLike[str]) -> dict[str, Floats]:
    """All parameters of a pass directory by name. One without its `done` was never finished."""
    place = Path(directory)
    if not (place / "done").is_file():
        raise DataError(f"'{place}' has no file 'done': it is not a pass directory, or was not written to its end")
    names = sorted(item.name for item in place.iterdir() if item.is_file() and item.name not in _NO_PARAMETERS)
    return {name: read_v1(place / name) for name in names if not name.startswith(".")}


def last_v1_pass(output: str | os.PathLike[str]) -> Path:
    """The latest complete pass of a v1 output directory."""
    place = Path(output)
    if not place.is_dir():
        raise DataError(f"there is no directory '{place}'")
    passes = [(int(match[1]), item) for item in place.iterdir() if (match := _PASS.fullmatch(item.name))]
    complete = [found for found in passes if (found[1] / "done").is_file()]
    if not complete:
        raise DataError(f"'{place}' has no complete pass: a directory pass-NNNNN with a file 'done' in it")
    return max(complete)[1]


def as_rows(numbers: Floats, dim: int, *, source: str) -> Floats:
    """A v1 parameter as rows of a table: row i belongs to key i."""
    if dim < 1 or numbers.size % dim:
        raise DataError(f"'{source}' has {numbers.size} numbers, which do not make rows of {dim}")
    return numbers.reshape(-1, dim)


def read_keys(path: str | os.PathLike[str]) -> NDArray[np.uint64]:
    """Keys of a table's rows, in the order of the rows: the .npy file that is written beside a v1 parameter."""
    try:
        keys = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' cannot be read as keys: {error}") from None
    if not isinstance(keys, np.ndarray) or keys.dtype != np.uint64 or keys.ndim != 1:
        raise DataError(f"'{path}' must be an array of uint64 keys, as `clickline rows to-v1` writes it")
    return keys


def read_lod_tensor(path: str | os.PathLike[str]) -> Floats:
    """The tensor of a LoDTensor file, such as seq_generator reads. fp32 only; its levels of detail are skipped."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        _expect(path, "the version of the LoDTensor", _number(path, file, "<I"), 0)
        levels = _number(path, file, "<Q")
        if levels > _MOST_LEVELS:
            raise DataError(f"'{path}' is not a LoDTensor file: {levels} levels of detail are more than {_MOST_LEVELS}")
        for _ in range(levels):
            length = _number(path, file, "<Q")
            if length > size - file.tell():
                raise DataError(f"'{path}' is cut short, or not a LoDTensor file: it lacks a level of {length} bytes")
            file.seek(length, os.SEEK_CUR)
        _expect(path, "the version of the tensor", _number(path, file, "<I"), 0)
        length = _number(path, file, "<i")
        if not 0 <= length <= _LARGEST_DESCRIPTION:
            raise DataError(f"'{path}' is not a LoDTensor file: its description cannot have {length} bytes")
        shape = _shape(path, file.read(length), length)
        return _mapped(path, file, offset=file.tell(), shape=shape)


def read_lod_rows(path: str | os.PathLike[str]) -> Floats:
    """A LoDTensor that is a table: two dimensions, row i belongs to key i."""
    tensor = read_lod_tensor(path)
    if tensor.ndim != 2:
        raise DataError(f"'{path}' must have 2 dimensions to be a table, got {tensor.ndim}: {list(tensor.shape)}")
    return tensor


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    try:
        if not Path(path).is_file():  # a named pipe would wait for a writer
            raise DataError(f"'{path}' is not a file")
        return Path(path).open("rb")
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}") from None


def _number(path: str | os.PathLike[str], file: BinaryIO, form: str) -> int:
    data = file.read(struct.calcsize(form))
    if len(data) < struct.calcsize(form):
        raise DataError(f"'{path}' is cut short, or not a LoDTensor file: it ends in its header")
    number: int = struct.unpack(form, data)[0]
    return number


def _expect(path: str | os.PathLike[str], what: str, found: int, expected: int) -> None:
    if found != expected:
        raise DataError(f"'{path}' is not a LoDTensor file: {what} must be {expected}, got {found}")


def _shape(path: str | os.PathLike[str], description: bytes, length: int) -> tuple[int, ...]:
    """From a TensorDesc, as protobuf writes it: field 1 the type, field 2 each dimension, packed or one by one."""
    kind, dims, at = None, [], 0
    try:
        if len(description) < length:
            raise ValueError("it is cut")
        while at < length:
            # A tag is the field number shifted by three bits, plus the wire type: 0x08 and 0x10 are varints of fields
            # 1 and 2; 0x12 is field 2 packed, whose first varint is the length in bytes.
            tag, at = _varint(description, at)
            value, at = _varint(description, at)
            if tag == 0x08:
                kind = value
            elif tag == 0x10:
                dims.append(value)
            elif tag == 0x12:
                end = at + value
                if end > length:
                    raise ValueError("its dimensions are cut")
                while at < end:
                    value, at = _varint(description, at)
                    dims.append(value)
            else:
                raise ValueError(f"field {tag >> 3} is unknown")
    except ValueError as error:
        raise DataError(f"'{path}' is not a LoDTensor file: its description cannot be read: {error}") from None
    if kind != _FP32:
        found = "none" if kind is None else _TYPES.get(kind, f"type {kind}")
        raise DataError(f"'{path}' must hold fp32, got {found}")
    # Paddle's -1 for an unknown dimension is a varint of 64 bits, so it is refused here as too large.
    if not 1 <= len(dims) <= _MOST_DIMS or any(dim > _LARGEST_DIM for dim in dims):
        raise DataError(f"'{path}' has a shape that cannot be: {dims}")
    return tuple(dims)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    # A varint of 64 bits has at most ten bytes of seven bits each.
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("it is cut")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise ValueError("a number has no end")


def _mapped(path: str | os.PathLike[str], file: BinaryIO, *, offset: int, shape: tuple[int, ...]) -> Floats:
    # Python's integers do not overflow: no product of hostile dimensions can match the size of the file by chance.
    expected, found = math.prod(shape) * 4, os.fstat(file.fileno()).st_size - offset
    if expected != found:
        raise DataError(f"'{path}' should hold {expected} bytes of numbers behind its header, but has {found}")
    if not expected:
        # A mapping of no bytes is an error of mmap.
        return np.zeros(shape, np.float32)
    return np.memmap(file, np.dtype("<f4"), mode="r", offset=offset, shape=shape)
