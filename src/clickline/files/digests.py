"""SHA-256 of files, MD5 where Cube wrote one, and a checksum inside small JSON objects that no manifest covers.

Files are hashed in one way in the whole project (docs/decisions/0012-one-sha256-for-files.md).

Imports nothing of the project: any layer may use it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

_BLOCK = 1 << 20
_CHECK = b', "check": "%s"}'


def file_sha256(path: os.PathLike[str] | str) -> str:
    """The SHA-256 of a file as 64 hexadecimal digits. Other threads run meanwhile. Raises OSError."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  (a str or a PathLike, and read once from end to end)
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_hashes(path: os.PathLike[str] | str, *algorithms: str) -> tuple[int, list[str]]:
    """Bytes of a file, and its hashes by several algorithms, as hexadecimal digits; it is read once. Raises OSError."""
    hashes, size = [hashlib.new(algorithm, usedforsecurity=False) for algorithm in algorithms], 0
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  (as above)
        while block := file.read(_BLOCK):
            for each in hashes:
                each.update(block)
            size += len(block)
    return size, [each.hexdigest() for each in hashes]


def stream_sha256(pieces: Iterable[bytes], *, limit: int) -> tuple[int, str]:
    """Bytes and SHA-256 of a file that comes in pieces. Stops once there are more than `limit` bytes."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
        if size > limit:
            break
    return size, digest.hexdigest()


def sealed_json(value: Mapping[str, Any]) -> bytes:
    """A JSON object whose last key, `check`, covers all bytes before it: the first half of their SHA-256."""
    body = json.dumps(value).encode()[:-1]
    return body + _CHECK % _check_of(body)


def is_as_sealed(content: bytes, value: Mapping[str, Any]) -> bool:
    """Whether the object that `content` was parsed to is what was sealed. One without `check` was never sealed."""
    if "check" not in value:
        return True
    # Bytes are compared, not values: a `check` with other keys after it, or with other spacing, does not pass.
    body = content[: -len(_CHECK % bytes(32))]
    return content == body + _CHECK % _check_of(body)


def _check_of(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:32].encode()
