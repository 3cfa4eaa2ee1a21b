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
from clickline.cube.client import OK, UNKNOWN, Cube, Found
from clickline.errors import PeerError
from clickline.publish.manifests import DTYPES, TableFacts
from clickline.serve.feeding import Floats, RowSource
from clickline.serve.requests import Counting, NoCounts, refuse

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
        counts: Counting | None = None,
    ) -> None:
        self._cube, self._version, self._tables, self._failure = cube, version, tables, failure
        self._counts: Counting = NoCounts() if counts is None else counts
        self._asked: int | None = version
        if os.environ.get(UNPINNED) == "1":
            self._asked = None
            _log.warning("%s is set: rows are read without a version, so answers may mix two of them", UNPINNED)

    def rows(self, table: str, keys: NDArray[np.uint64]) -> tuple[Floats, int]:
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
                return np.zeros((len(keys), facts.dim), np.float32), 0
        if (found.dim, found.dtype) != (facts.dim, DTYPES[facts.dtype]):
            raise refuse(
                "rows_unavailable",
                f"the cube has rows of dim {found.dim} and type {found.dtype} in table {table} of version "
                f"{found.version}, its manifest {facts.dim} and {DTYPES[facts.dtype]}: is it the cube of this store?",
            )
        return _numbers(found.values, found.dtype, found.dim), int(np.count_nonzero(found.status == 1))

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


def _numbers(values: NDArray[np.uint8], dtype: int, dim: int) -> Floats:
    """Rows as they are stored, without a copy where they are numbers already."""
    if dtype == _FP32:
        return values.view(np.float32)
    return _native.decode_rows(values, dtype, dim)
