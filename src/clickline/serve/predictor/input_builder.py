"""From a batch to what a network is fed: distinct keys, their rows, pooled as in training.

It gives what the sparse side of a training step gives, without PyTorch: the same native plan, the same pooling, the
same names. All that does not depend on the batch is worked out when a version is loaded. Nothing here loops over rows
or keys, and nothing is kept from one batch to the next, so any number of threads may use one feeder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.data.batch import Batch
from clickline.data.embeddings import POOLING, Embedding
from clickline.data.schema import Schema
from clickline.errors import VersionError
from clickline.versions.manifest import TableFacts
from clickline.versions.network import embeddings_of

Floats = NDArray[np.float32]
_FEW = 4096
"""Keys of a batch up to which each is looked up as it comes, if every slot has one value: to find those that are there
twice, and to put rows back in their places, takes longer than to look some up again."""


class RowSource(Protocol):
    """Where the rows of one version come from."""

    def rows(self, table: str, keys: NDArray[np.uint64]) -> tuple[Floats, int]:
        """[keys, dim], zeros where there is no row, and how many there are none for."""


@dataclass(slots=True)
class Fed:
    """What a network is fed, and what it took."""

    feeds: dict[str, NDArray[Any]]
    keys: int
    """That rows were read for: distinct ones of a large batch; one that two tables are asked for counts twice."""
    missing: int
    seconds: float
    """Spent on reading rows."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """Which slots a plan covers and how it pools them, and what is made of it: (name, table, dim)."""

    select: list[int]
    pooling: list[int]
    sequence_length: int
    width: int
    all: bool
    """Whether these are all slots, in their order."""
    fed: list[tuple[str, str, int]]
    lengths: list[str]


class Feeder:
    """Feeds the network of one version.

    `names` are the network's own inputs, `tables` those of the manifest: whatever does not fit is refused here, once,
    and is not looked at again for every batch.
    """

    def __init__(
        self,
        inputs: Mapping[str, Mapping[str, Any]],
        schema: Schema,
        *,
        names: Sequence[str],
        tables: Mapping[str, TableFacts],
    ) -> None:
        embeddings = embeddings_of(inputs, schema)
        for one in embeddings.values():
            if one.table not in tables or tables[one.table].dim != one.dim:
                raise VersionError(f"inputs.{one.name}: no table {one.table!r} with rows of dim {one.dim}")
        self._columns = len(schema.slots)
        # A batch has a dense part always, if one of width 0; a network without dense numbers has no such input.
        self._dense = "dense" in names
        self._readings = _readings(embeddings, schema, names)
        fed = {name for reading in self._readings for name, _, _ in reading.fed}
        fed |= {name for reading in self._readings for name in reading.lengths} | ({"dense"} if self._dense else set())
        if unfed := [name for name in names if name not in fed]:
            raise VersionError(f"the network needs {', '.join(unfed)}, which the manifest's inputs do not explain")

    def feeds(self, batch: Batch, source: RowSource, *, threads: int = 1) -> Fed:
        """The inputs of the network for these rows."""
        rows = len(batch)
        feeds: dict[str, NDArray[Any]] = {"dense": batch.dense} if self._dense else {}
        labels = batch.labels[:, 0]
        keys = missing = 0
        seconds = 0.0
        for reading in self._readings:
            if batch.offsets is None and not reading.sequence_length and rows * reading.width <= _FEW:
                asked = batch.keys if reading.all else _columns(batch.keys, rows, reading.select)
                for name, table, dim in reading.fed:
                    start = perf_counter()
                    found, lacking = source.rows(table, asked)
                    seconds += perf_counter() - start
                    feeds[name] = found.reshape(rows, reading.width, dim)
                    keys += len(asked)
                    missing += lacking
                continue
            plan = _native.Plan(
                batch.keys,
                batch.offsets,
                self._columns,
                reading.select,
                reading.pooling,
                labels,
                reading.sequence_length,
                threads,
            )
            unique = plan.unique
            for name, table, dim in reading.fed:
                start = perf_counter()
                found, lacking = source.rows(table, unique)
                seconds += perf_counter() - start
                out = np.empty((rows, reading.width, dim), np.float32)
                plan.gather(found, out, threads)
                feeds[name] = out
                keys += len(unique)
                missing += lacking
            for name in reading.lengths:
                feeds[name] = plan.lengths
        return Fed(feeds, keys, missing, seconds)


def _columns(keys: NDArray[np.uint64], rows: int, select: list[int]) -> NDArray[np.uint64]:
    return keys.reshape(rows, -1).take(select, axis=1).reshape(-1)


def _readings(embeddings: Mapping[str, Embedding], schema: Schema, names: Sequence[str]) -> list[_Reading]:
    """Embeddings that read the same slots share one plan. What the network does not use is not read."""
    place = {slot.name: column for column, slot in enumerate(schema.slots)}
    found: dict[tuple[tuple[str, ...], int], _Reading] = {}
    for one in embeddings.values():
        used = [name for name in (one.name, one.length_name) if name in names]
        if not used:
            continue
        key = (one.slots, one.sequence_length)
        if key not in found:
            select = [place[slot] for slot in one.slots]
            pooling = [POOLING[schema.slots[column].pooling] for column in select]
            whole = select == list(range(len(schema.slots)))
            found[key] = _Reading(
                select, pooling, one.sequence_length, one.sequence_length or len(select), whole, [], []
            )
        if one.name in names:
            found[key].fed.append((one.name, one.table, one.dim))
        if one.sequence_length and one.length_name in names:
            found[key].lengths.append(one.length_name)
    return list(found.values())
