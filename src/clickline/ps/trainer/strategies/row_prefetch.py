"""Batches whose rows are pulled while earlier batches are computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from clickline.data.batch import Batch
from clickline.ps.trainer.model_replica import ModelReplica, RemoteTable
from clickline.train.sparse import Pulled

Versions = dict[str, list[int]]
"""Of each table, the version of each server's part when rows were pulled: how stale a gradient is when it arrives."""


@dataclass(frozen=True, slots=True)
class PulledBatch:
    """A batch with its rows."""

    batch: Batch
    done: int
    """Rows of the piece that are done with it."""
    rows: dict[str, Pulled]
    versions: Versions


class RowPrefetch:
    """One thread that pulls rows, at most `depth` batches ahead."""

    def __init__(self, *, replica: ModelReplica, tables: dict[str, RemoteTable], depth: int) -> None:
        self._replica, self._tables, self._depth = replica, tables, depth
        self._puller = ThreadPoolExecutor(1, thread_name_prefix="clickline-pull")

    def pulled(self, batches: Iterator[tuple[Batch, int]]) -> Iterator[PulledBatch]:
        ahead: deque[Future[PulledBatch]] = deque()
        try:
            for batch, done in batches:
                ahead.append(self._puller.submit(self._pull, batch, done))
                if len(ahead) > self._depth:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()

    def _pull(self, batch: Batch, done: int) -> PulledBatch:
        # One thread pulls, so the versions are those of this pull; a pull replaces the list of a table and does not
        # change it in place.
        rows = self._replica.pull(batch)
        return PulledBatch(batch, done, rows, {name: table.versions for name, table in self._tables.items()})

    def close(self) -> None:
        self._puller.shutdown(wait=False, cancel_futures=True)
