"""Sources of embedding rows: dictionaries on this machine, or a cube. Each source reads one version only.

A cube is always read by version number, so all rows of a request are of that version or there is no answer. Rows that
cannot be read are a matter of policy: "error" fails the request, "zeros" goes on with zeros and counts them. The check
of a version against its golden sample never accepts zeros (`strictly`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.cube.cube_client import MISSING, OK, UNKNOWN, Cube, CubeAnswer, NoSuchVersionError
from clickline.errors import PeerError
from clickline.net.request_errors import refuse
from clickline.serve.metrics.counters import series
from clickline.serve.metrics.metric_sink import MetricSink, NoMetrics
from clickline.serve.predictor.input_builder import Floats, RowSource
from clickline.versions.manifest import DTYPES, TableFacts

Failure = Literal["error", "zeros"]
_NO_SUCH_VERSION = "no-such-version: "
"""The code at the start of an error of the cube's wire protocol."""
_FP32 = DTYPES["fp32"]
_RETRY = 0.2
_log = logging.getLogger(__name__)


class VersionGoneError(Exception):
    """Raised when no replica has the version of a request any more; the request has to be computed with another one."""


class LocalRows:
    """Rows of dictionaries that are mapped into this process, and released with the last reference to this."""

    def __init__(self, layers: Mapping[str, list[_native.Dictionary]]) -> None:
        self._tables = {
            name: (_native.Layers(dictionaries), dictionaries[0].dtype, dictionaries[0].dim)
            for name, dictionaries in layers.items()
        }

    def rows(self, table: str, keys: NDArray[np.uint64]) -> tuple[Floats, int]:
        layers, dtype, dim = self._tables[table]
        status, values = layers.lookup(keys)
        return _numbers(values, dtype, dim), int(np.count_nonzero(status))

    def strictly(self) -> LocalRows:
        return self


class CubeRows:
    """Rows of one version, from a cube."""

    def __init__(
        self,
        cube: Cube,
        version: int,
        *,
        tables: Mapping[str, TableFacts],
        failure: Failure = "error",
        counts: MetricSink | None = None,
        model: str = "",
        cache: int = 0,
    ) -> None:
        """`cache`: bytes for rows that were read before; 0: none. `model`: its name in the metrics."""
        self._cube, self._version, self._tables, self._failure = cube, version, tables, failure
        self._counts: MetricSink = NoMetrics() if counts is None else counts
        self._caches = _row_caches(cache, tables) if cache else {}
        self._hits, self._misses = series(model, "hit"), series(model, "miss")

    def rows(self, table: str, keys: NDArray[np.uint64]) -> tuple[Floats, int]:
        cache = self._caches.get(table)
        if cache is not None:
            return self._cached(cache, table, keys)
        rows, missing, _ = self._read(table, keys)
        return rows, int(np.count_nonzero(missing))

    def _cached(self, cache: _native.RowCache, table: str, keys: NDArray[np.uint64]) -> tuple[Floats, int]:
        """Rows from the cache or the cube. The cache belongs to this object and so to one version: it cannot be
        stale."""
        rows = np.empty((len(keys), self._tables[table].dim), np.float32)
        missing = np.empty(len(keys), np.uint8)
        unknown = cache.lookup(keys, rows, missing)
        if len(unknown) < len(keys):
            self._counts.count("clickline_row_cache_total", len(keys) - len(unknown), self._hits)
        if len(unknown):
            self._counts.count("clickline_row_cache_total", len(unknown), self._misses)
            uncached = keys[unknown]
            rows[unknown], missing[unknown], complete = read = self._read(table, uncached)
            if complete:  # zeros in place of rows that could not be read must not be kept
                cache.insert(uncached, *read[:2])
        return rows, int(np.count_nonzero(missing))

    def _read(self, table: str, keys: NDArray[np.uint64]) -> tuple[Floats, NDArray[np.uint8], bool]:
        """Rows from the cube, where it has none (1), and whether all could be read."""
        try:
            answer = self._cube.get(table, keys, version=self._version)
        except NoSuchVersionError as error:
            raise VersionGoneError(str(error)) from error
        except PeerError as error:
            raise refuse("rows_unavailable", f"rows of table {table} cannot be read: {error}", _RETRY) from error
        expected = self._tables[table]
        if answer.code != OK:
            self._fail(table, answer)
            # `_fail` returns only if zeros are configured.
            if not answer.dim:  # no shard has answered, so the shape of rows is not known
                return np.zeros((len(keys), expected.dim), np.float32), np.zeros(len(keys), np.uint8), False
        if (answer.dim, answer.dtype) != (expected.dim, DTYPES[expected.dtype]):
            raise refuse(
                "rows_unavailable",
                f"the cube has rows of dim {answer.dim} and type {answer.dtype} in table {table} of version "
                f"{answer.version}, but its manifest says {expected.dim} and {DTYPES[expected.dtype]}: "
                "is it the cube of this store?",
            )
        missing = (answer.status == MISSING).view(np.uint8)
        return _numbers(answer.values, answer.dtype, answer.dim), missing, answer.code == OK

    def strictly(self) -> RowSource:
        """The same rows, without a cache, where those that cannot be read are an error."""
        return CubeRows(self._cube, self._version, tables=self._tables)

    def _fail(self, table: str, answer: CubeAnswer) -> None:
        unknown = int(np.count_nonzero(answer.status == UNKNOWN))
        self._counts.count("clickline_rows_unavailable_total", unknown)
        if self._failure == "error":
            why = "; ".join(answer.errors) or "the cube gives no reason"
            raise refuse(
                "rows_unavailable", f"{unknown} of {len(answer)} rows of table {table} cannot be read: {why}", _RETRY
            )


def _row_caches(size: int, tables: Mapping[str, TableFacts]) -> dict[str, _native.RowCache]:
    """One for each table, in proportion to the size of its rows."""
    widths = sum(described.dim for described in tables.values())
    caches = {}
    for name, described in tables.items():
        try:
            caches[name] = _native.RowCache(bytes=size * described.dim // widths, dim=described.dim)
        except ValueError as error:
            _log.warning("rows of table %s are not cached: %s", name, error)
    return caches


def _numbers(values: NDArray[np.uint8], dtype: int, dim: int) -> Floats:
    """Rows as they are stored, without a copy where they are numbers already."""
    if dtype == _FP32:
        return values.view(np.float32)
    return _native.decode_rows(values, dtype, dim)
