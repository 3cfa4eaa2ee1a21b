"""Reading from the cube: rows by key, every batch of one version.

    cube = Cube.connect([["tcp:10.0.0.1:8027", "tcp:10.0.0.2:8027"]], name="ctr", token=token)
    rows = cube.get("embedding", keys)          # rows.values, rows.status, rows.version, rows.decoded()

The native client does the work: shards × replicas, each key asked once, other replicas where one fails. Safe to use
from any number of threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clickline import _native
from clickline.errors import JobError, PeerError

FOUND, MISSING, UNKNOWN = 0, 1, 3
"""Statuses of a key; unknown: its shard could not be asked."""
OK, NO_SUCH_KEY, SOME_FAILED, ALL_FAILED = 0, -1, -2, -3
"""Codes of an answer, the same as those of Cube's client."""
_NO_SUCH_VERSION = "no-such-version"
"""The code word that such an error of the wire begins with (docs/reference/wire.md)."""


class NoSuchVersionError(PeerError):
    """Raised when no replica has the version that was asked for."""


@dataclass(frozen=True)
class CubeAnswer:
    """The rows of a batch of keys."""

    version: int
    code: int
    """0, or -2: some shards could not be asked, or -3: none could."""
    status: NDArray[np.uint8]
    values: Any
    """Rows as bytes, [n, row_bytes]; of values of any size, all of them one behind the other (see `value`)."""
    offsets: NDArray[np.uint64] | None
    dtype: int
    dim: int
    errors: list[str]
    """What the shards that failed said."""

    def __len__(self) -> int:
        return len(self.status)

    def decoded(self) -> NDArray[np.float32]:
        """Rows as numbers; zeros where there is no row."""
        if self.dtype == 0:
            raise JobError("these values are bytes of no known meaning; use .values or .value()")
        return _native.decode_rows(self.values, self.dtype, self.dim)

    def value(self, index: int) -> bytes:
        """One value as bytes, whatever its size; empty if there is none."""
        if self.status[index] != FOUND:
            return b""
        if self.offsets is None:
            return bytes(self.values[index])
        return bytes(self.values[int(self.offsets[index]) : int(self.offsets[index + 1])])


class Cube:
    """A client of a cube. A context manager, or closed by hand."""

    def __init__(self, native: _native.CubeClient) -> None:
        self._native = native

    @classmethod
    def connect(
        cls,
        shards: Sequence[Sequence[str]],
        *,
        token: bytes,
        name: str = "",
        timeout: float = 1.0,
        hedge: float = 0.0,
        retries: int = 2,
    ) -> Self:
        """`shards` are the addresses of the replicas of each shard (`compat.cube.cube_conf` reads a cube.conf)."""
        addresses = [list(replicas) for replicas in shards]
        return cls(
            _native.CubeClient(
                addresses, name="client", job=name, token=token, timeout=timeout, hedge=hedge, retries=retries
            )
        )

    def get(self, table: str, keys: ArrayLike, *, version: int | None = None) -> CubeAnswer:
        """Rows of the keys, in their order. What could not be asked is in the code.

        Raises NoSuchVersionError, and PeerError for another request that cannot be answered.
        """
        try:
            got = self._native.get(table, np.ascontiguousarray(keys, dtype=np.uint64), version)
        except PeerError as error:
            if str(error).partition(": ")[0] == _NO_SUCH_VERSION:
                raise NoSuchVersionError(*error.args) from error
            raise
        # Rows of one size come as a matrix; only values of differing sizes need offsets.
        offsets = got.offsets if got.row_bytes == 0 and got.dtype == 0 else None
        return CubeAnswer(got.version, got.code, got.status, got.values, offsets, got.dtype, got.dim, list(got.errors))

    async def get_async(self, table: str, keys: ArrayLike, *, version: int | None = None) -> CubeAnswer:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.get, table, keys, version=version)

    def seek(self, table: str, key: int) -> tuple[int, bytes]:
        """One key, as Cube's client reads it: 0 and its value, -1 no such key, -3 its shard could not be asked."""
        found = self.get(table, [key])
        if found.code != OK:
            return ALL_FAILED, b""
        return (OK, found.value(0)) if found.status[0] == FOUND else (NO_SUCH_KEY, b"")

    @property
    def version(self) -> int:
        """The version that reads get if they name none; 0 before the first."""
        return int(self._native.version)

    def set_replicas(self, shard: int, replicas: Sequence[str]) -> None:
        """Other servers of a shard: from the next request on. Those that stay keep their connections."""
        self._native.set_addresses(shard, list(replicas))

    def counts(self) -> dict[str, int]:
        return dict(self._native.counts())

    def close(self) -> None:
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
