"""Rows for a golden sample, drawn from a job's data. Reading a sample does not need this."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from clickline.config import Job
from clickline.data.batch import Batch, join
from clickline.data.dataset import Dataset
from clickline.data.position import LogOffset
from clickline.data.schema import Schema
from clickline.data.sources.block_source import BlockSource
from clickline.data.sources.files import find
from clickline.errors import DataError

_MOST_COLUMNS = 10_000


def draw(job: Job, schema: Schema, *, paths: list[str], rows: int) -> Batch:
    """The first rows of some data, in its order, so that the same data gives the same sample."""
    dataset = Dataset(data=job.data, schema=schema, paths=paths, batch_size=rows, seed=job.seed, shuffle=False)
    with closing(dataset.batches(epoch=0)) as batches:
        for batch, _ in batches:
            return join([batch])
    raise DataError(f"there are no rows in {', '.join(paths)}")


def unread_columns(job: Job, schema: Schema, *, paths: list[str]) -> list[str]:
    """Columns of some data that no feature is read from, by its first file: none for formats that name no columns."""
    names: list[str] = []

    def noticed(columns: list[str]) -> list[str]:
        names.extend(columns)
        return schema.columns_of(columns)

    # Parquet: columns that no feature is read from are not even loaded, so they are noted while columns are selected.
    source = BlockSource(job.data, schema, select_columns=noticed)
    block = next(source.blocks(find(paths, options=job.data.storage), start=LogOffset()), None)
    if block is not None and not names:
        data: Any = block.data
        names = list(block.columns) if isinstance(data, bytes) else list(data.schema.names)
    return [name for name in names if name not in schema.columns][:_MOST_COLUMNS]


def paths_of(job: Job) -> list[str]:
    """Where a sample is drawn from: test data, else validation, else what was trained on."""
    return job.data.test or job.data.valid or job.data.train
