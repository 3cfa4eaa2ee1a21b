"""The input builder: from a batch to the inputs of a network, by distinct keys, their rows, pooled as in training.

It gives what the sparse side of a training step gives, without PyTorch: the same native plan, the same pooling, the
same names. All that does not depend on the batch is computed when a version is loaded. Nothing here loops over rows
or keys, and nothing is kept from one batch to the next, so any number of threads may use one builder.
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
"""Keys of a batch up to which each is looked up as it comes, if every slot has one value: to find duplicates, and to
put rows back in their places, takes longer than to look some up twice."""


class RowSource(Protocol):
    """Where the rows of one version come from."""

    def rows(self, table: str, keys: NDArray[np.uint64]) -> tuple[Floats, int]:
        """[keys, dim], zeros where there is no row, and the number of keys without a row."""


@dataclass(slots=True)
class NetworkInputs:
    """The inputs of a network for one batch, and what reading them took."""

    feeds: dict[str, NDArray[Any]]
    keys: int
    """Keys that rows were read for: distinct ones of a large batch; a key that is read from two tables counts twice."""
    missing: int
    seconds: float
    """Spent on reading rows."""


@dataclass(frozen=True, slots=True)
class _SlotGroup:
    """Slots that share one plan, how they are pooled, and the inputs that are made of them."""

    select: list[int]
    pooling: list[int]
    sequence_length: int
    width: int
    all: bool
    """Whether these are all slots, in their order."""
    inputs: list[tuple[str, str, int]]
    """Name of the input, table, dim."""
    lengths: list[str]
    """Names of the inputs that get the lengths of sequences."""


class InputBuilder:
    """Builds the inputs of one version's network.

    `names` are the network's own inputs, `tables` those of the manifest: what does not fit is refused here, once, so
    that it need not be checked for every batch.
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
        for embedding in embeddings.values():
            if embedding.table not in tables or tables[embedding.table].dim != embedding.dim:
                raise VersionError(
                    f"inputs.{embedding.name}: no table {embedding.table!r} with rows of dim {embedding.dim}"
                )
        self._columns = len(schema.slots)
        # A batch always has a dense part, of width 0 if there are no dense features; then the network has no such
        # input.
        self._dense = "dense" in names
        self._groups = _slot_groups(embeddings, schema, names)
        fed = {name for group in self._groups for name, _, _ in group.inputs}
        fed |= {name for group in self._groups for name in group.lengths} | ({"dense"} if self._dense else set())
        if unfed := [name for name in names if name not in fed]:
            raise VersionError(f"the network needs {', '.join(unfed)}, which the manifest's inputs do not explain")

    def build(self, batch: Batch, source: RowSource, *, threads: int = 1) -> NetworkInputs:
        """The inputs of the network for these rows."""
        rows = len(batch)
        feeds: dict[str, NDArray[Any]] = {"dense": batch.dense} if self._dense else {}
        labels = batch.labels[:, 0]
        keys = missing = 0
        seconds = 0.0
        for group in self._groups:
            if batch.offsets is None and not group.sequence_length and rows * group.width <= _FEW:
                # Few keys with one value each: no pooling is needed, so rows are read in the order of the keys.
                wanted = batch.keys if group.all else _columns(batch.keys, rows, group.select)
                for name, table, dim in group.inputs:
                    start = perf_counter()
                    read, without_row = source.rows(table, wanted)
                    seconds += perf_counter() - start
                    # [rows * width, dim] by row, then by slot, which is the order that `gather` writes below.
                    feeds[name] = read.reshape(rows, group.width, dim)
                    keys += len(wanted)
                    missing += without_row
                continue
            # The plan finds the distinct keys, so that each row is read once, and knows to which rows of the batch, and
            # into which pool, each of them goes.
            plan = _native.Plan(
                batch.keys,
                batch.offsets,
                self._columns,
                group.select,
                group.pooling,
                labels,
                group.sequence_length,
                threads,
            )
            unique = plan.unique
            for name, table, dim in group.inputs:
                start = perf_counter()
                read, without_row = source.rows(table, unique)
                seconds += perf_counter() - start
                # `gather` writes every element: zeros for empty slots and for the unused end of a sequence.
                out = np.empty((rows, group.width, dim), np.float32)
                plan.gather(read, out, threads)
                feeds[name] = out
                keys += len(unique)
                missing += without_row
            for name in group.lengths:
                feeds[name] = plan.lengths
        return NetworkInputs(feeds, keys, missing, seconds)


def _columns(keys: NDArray[np.uint64], rows: int, select: list[int]) -> NDArray[np.uint64]:
    return keys.reshape(rows, -1).take(select, axis=1).reshape(-1)


def _slot_groups(embeddings: Mapping[str, Embedding], schema: Schema, names: Sequence[str]) -> list[_SlotGroup]:
    """Embeddings that read the same slots share one plan. What the network does not use is not read."""
    column_of = {slot.name: column for column, slot in enumerate(schema.slots)}
    groups: dict[tuple[tuple[str, ...], int], _SlotGroup] = {}
    for embedding in embeddings.values():
        if embedding.name not in names and embedding.length_name not in names:
            continue
        key = (embedding.slots, embedding.sequence_length)
        if key not in groups:
            select = [column_of[slot] for slot in embedding.slots]
            pooling = [POOLING[schema.slots[column].pooling] for column in select]
            whole = select == list(range(len(schema.slots)))
            width = embedding.sequence_length or len(select)
            groups[key] = _SlotGroup(select, pooling, embedding.sequence_length, width, whole, [], [])
        if embedding.name in names:
            groups[key].inputs.append((embedding.name, embedding.table, embedding.dim))
        if embedding.sequence_length and embedding.length_name in names:
            groups[key].lengths.append(embedding.length_name)
    return list(groups.values())
