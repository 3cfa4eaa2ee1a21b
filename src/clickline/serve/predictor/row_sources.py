"""Where a predictor's rows come from: dictionaries on this machine, or a cube. Both speak for one version only.

A cube is read by version number, so an answer is of that version or there is none. What cannot be read is a matter of
policy: "error" fails the request, "zeros" goes on with zeros and counts them. Whether a version is what its manifest
says is checked without zeros, whatever the policy (`strictly`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.cube.cube_client import MISSING, OK, UNKNOWN, Cube, Found
from clickline.errors import PeerError
from clickline.net.request_errors import refuse
from clickline.serve.metrics.counters import series
from clickline.serve.metrics.metric_sink import MetricSink, NoMetrics
from clickline.serve.predictor.input_builder import Floats, RowSource
from clickline.versions.manifest import DTYPES, TableFacts

Failure = Literal["error", "zeros"]
UNPINNED = "CLICKLINE_UNPINNED"
"""Environment variable: 1 reads a cube without naming the version. For tests that show what then goes wrong."""
_FP32 = DTYPES["fp32"]
_RETRY = 0.2
_log = logging.getLogger(__name__)


class VersionGoneError(Exception):
    """The version that a request was given is on no replica any more; another has to answer it, from the start."""


class LocalRows:
    """Rows of dictionaries that are mapped into this process. They are let go with the last who holds this."""

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
        self._asked: int | None = version
        if os.environ.get(UNPINNED) == "1":
            self._asked = None
            _log.warning("%s is set: rows are read without a version, so answers may mix two of them", UNPINNED)
            cache = 0
        self._caches = _row_caches(cache, tables) if cache else {}
        self._hits, self._misses = series(model, "hit"), series(model, "miss")

    def rows(self, table: str, keys: NDArray[np.uint64]) -> tuple[Floats, int]:
        cache = self._caches.get(table)
        if cache is not None:
            return self._cached(cache, table, keys)
        rows, missing, _ = self._read(table, keys)
        return rows, int(np.count_nonzero(missing))

    def _cached(self, cache: _native.RowCache, table: str, keys: NDArray[np.uint64]) -> tuple[Floats, int]:
        """The cache belongs to this object, which is of one version: what it holds is what the cube would say."""
        rows = np.empty((len(keys), self._tables[table].dim), np.float32)
        missing = np.empty(len(keys), np.uint8)
        unknown = cache.lookup(keys, rows, missing)
        if len(unknown) < len(keys):
            self._counts.count("clickline_row_cache_total", len(keys) - len(unknown), self._hits)
        if len(unknown):
            self._counts.count("clickline_row_cache_total", len(unknown), self._misses)
            asked = keys[unknown]
            rows[unknown], missing[unknown], complete = read = self._read(table, asked)
            if complete:  # zeros for rows that could not be read are nobody's rows
                cache.insert(asked, *read[:2])
        return rows, int(np.count_nonzero(missing))

    def _read(self, table: str, keys: NDArray[np.uint64]) -> tuple[Floats, NDArray[np.uint8], bool]:
        """Rows from the cube, where it has none (1), and whether all could be read."""
        try:
            found = self._cube.get(table, keys, version=self._asked)
        except PeerError as error:
            if str(error).startswith("no-such-version"):
                raise VersionGoneError(str(error)) from error
            raise refuse("rows_unavailable", f"rows of table {table} cannot be read: {error}", _RETRY) from error
        facts = self._tables[table]
        if found.code != OK:
            self._fail(table, found)
            if not found.dim:  # nobody could say what rows look like
                return np.zeros((len(keys), facts.dim), np.float32), np.zeros(len(keys), np.uint8), False
        if (found.dim, found.dtype) != (facts.dim, DTYPES[facts.dtype]):
            raise refuse(
                "rows_unavailable",
                f"the cube has rows of dim {found.dim} and type {found.dtype} in table {table} of version "
                f"{found.version}, its manifest {facts.dim} and {DTYPES[facts.dtype]}: is it the cube of this store?",
            )
        missing = (found.status == MISSING).view(np.uint8)
        return _numbers(found.values, found.dtype, found.dim), missing, found.code == OK

    def strictly(self) -> RowSource:
        """The same, but rows that cannot be read are an error, and the version is named whatever else is wanted."""
        found = CubeRows(self._cube, self._version, tables=self._tables)
        found._asked = self._version
        return found

    def _fail(self, table: str, found: Found) -> None:
        unknown = int(np.count_nonzero(found.status == UNKNOWN))
        self._counts.count("clickline_rows_unavailable_total", unknown)
        if self._failure == "error":
            said = "; ".join(found.errors) or "the cube does not say why"
            raise refuse(
                "rows_unavailable", f"{unknown} of {len(found)} rows of table {table} cannot be read: {said}", _RETRY
            )


def _row_caches(size: int, tables: Mapping[str, TableFacts]) -> dict[str, _native.RowCache]:
    """One for each table, in proportion to the size of its rows."""
    widths = sum(facts.dim for facts in tables.values())
    found = {}
    for name, facts in tables.items():
        try:
            found[name] = _native.RowCache(bytes=size * facts.dim // widths, dim=facts.dim)
        except ValueError as error:
            _log.warning("rows of table %s are not cached: %s", name, error)
    return found


def _numbers(values: NDArray[np.uint8], dtype: int, dim: int) -> Floats:
    """Rows as they are stored, without a copy where they are numbers already."""
    if dtype == _FP32:
        return values.view(np.float32)
    return _native.decode_rows(values, dtype, dim)
