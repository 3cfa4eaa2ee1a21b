"""half_async sends several batches as one gradient, which is that of all their rows together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.schema import Schema
from clickline.ps.server.server import ParameterServer
from clickline.ps.trainer.built_model import BuiltModel
from clickline.ps.trainer.model_replica import ModelReplica, RemoteTable
from clickline.ps.trainer.pserver_client import PserverClient
from clickline.ps.trainer.strategies.async_ import Async
from clickline.ps.trainer.strategies.half_async import HalfAsync
from clickline.ps.trainer.strategies.trainer_strategy import TrainerStrategy

TOKEN = b"a token of these tests"
Learned = dict[str, NDArray[np.float32]]


@pytest.fixture
def job(small_job: Job) -> Job:
    """Plain steps, so that a gradient that is too large or too small shows in full."""
    settings = small_job.model_dump()
    settings["model"] |= {"dropout": 0.0}
    settings["train"]["optimizer"] |= {"name": "sgd", "learning_rate": 0.5}
    settings["cluster"]["agree"] |= {"merge": 2, "prefetch": 0}
    return Job.model_validate(settings)


@contextmanager
def started(job: Job, schema: Schema, path: Path) -> Iterator[ParameterServer]:
    server = ParameterServer(job=job, part=0, parts=1, address=f"unix:{path}", token=TOKEN)
    with closing(server):
        server.set_up(schema)
        server.fetch_model = lambda: BuiltModel(job).initial(schema)
        server.load(None, generation=1)
        yield server


def learned(strategy: type[TrainerStrategy], job: Job, batches: list[Batch], path: Path) -> Learned:
    """What a server has after a trainer of its own has sent these batches."""
    schema = Schema.of(job.data, job.features)
    with started(job, schema, path) as server:
        pservers = PserverClient(job=job, addresses=[server.wire.address], token=TOKEN, name="trainer.0", client=1)
        tables: dict[str, RemoteTable] = {}
        replica = ModelReplica(job=job, schema=schema, model=BuiltModel(job).model(schema), tables=tables, threads=1)
        for number, name in enumerate(replica.model.embeddings):
            tables[name] = RemoteTable(pservers.pulling, number, wire=job.cluster.wire)
        with (
            closing(pservers),
            closing(strategy(job=job, replica=replica, pservers=pservers, tables=tables, rank=0)) as trainer,
        ):
            trainer.begin(generation=1, start=0, warm=False)
            trainer.refresh()
            rows = np.cumsum([len(batch) for batch in batches]).tolist()
            for _ in trainer.steps(iter(list(zip(batches, rows, strict=True))), lease=1):
                pass
            trainer.flush()
            assert server.block is not None
            assert server.block.steps == 1
            found = {"dense": server.block.values.copy()}
            for name, table in server.tables.items():
                keys = np.sort(table.keys())
                found |= {f"{name}.keys": keys, name: table.rows(keys)}
    return found


def test_batches_of_different_sizes_count_by_their_rows(job: Job, tmp_path: Path) -> None:
    schema = Schema.of(job.data, job.features)
    draw = np.random.default_rng(4)
    keys = draw.integers(1, 60, 40 * len(schema.slots), dtype=np.uint64)
    dense = draw.normal(size=(40, schema.dense_width)).astype(np.float32)
    whole = Batch((draw.random((40, 1)) < 0.3).astype(np.float32), dense, keys)
    merged = learned(HalfAsync, job, [whole.part(0, 33), whole.part(33, 40)], tmp_path / "merged.sock")
    together = learned(Async, job, [whole], tmp_path / "together.sock")
    assert merged.keys() == together.keys()
    for name, values in together.items():
        np.testing.assert_allclose(merged[name], values, rtol=1e-4, atol=1e-6, err_msg=name)
