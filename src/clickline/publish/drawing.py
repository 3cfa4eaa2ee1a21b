"""Where a kept sample comes from: rows of a job's data. Whoever only reads a sample needs none of this."""

from __future__ import annotations

from contextlib import closing

from clickline.config import Job
from clickline.data.batch import Batch, join
from clickline.data.pipeline import Dataset
from clickline.data.schema import Schema
from clickline.errors import DataError


def draw(job: Job, schema: Schema, *, paths: list[str], rows: int) -> Batch:
    """The first rows of some data, in its order, so that the same data gives the same sample."""
    dataset = Dataset(data=job.data, schema=schema, paths=paths, batch_size=rows, seed=job.seed, shuffle=False)
    with closing(dataset.batches(epoch=0)) as batches:
        for batch, _ in batches:
            return join([batch])
    raise DataError(f"There are no rows in {', '.join(paths)}.")


def paths_of(job: Job) -> list[str]:
    """Where a sample is drawn from: test data, else validation, else what was trained on."""
    return job.data.test or job.data.valid or job.data.train
