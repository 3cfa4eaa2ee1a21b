"""One trainer's strategy against real parameter servers in this process: what it sends can be counted there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.schema import Schema
from clickline.ps.server.server import ParameterServer
from clickline.ps.trainer.built_model import BuiltModel
from clickline.ps.trainer.model_replica import ModelReplica, RemoteTable
from clickline.ps.trainer.pserver_client import PserverClient
from clickline.ps.trainer.strategies.strategy_table import STRATEGIES
from clickline.ps.trainer.strategies.trainer_strategy import TrainerStrategy

TOKEN = b"a secret of the test"
ROWS = 20


class ServedStrategy:
    """Servers, and one trainer's strategy to learn on them. To be closed."""

    def __init__(self, settings: dict[str, Any], directory: Path, *, servers: int = 1) -> None:
        self.job = Job.model_validate(settings)
        schema, built = Schema.of(self.job.data, self.job.features), BuiltModel(self.job)
        self.servers = [
            ParameterServer(job=self.job, part=part, parts=servers, address=f"unix:{directory}/{part}", token=TOKEN)
            for part in range(servers)
        ]
        for server in self.servers:
            server.set_up(schema)
            server.fetch_model = lambda: built.initial(schema)
            server.load(None, generation=1)
        addresses = [server.wire.address for server in self.servers]
        self.pservers = PserverClient(job=self.job, addresses=addresses, token=TOKEN, name="trainer.0", client=7)
        tables: dict[str, RemoteTable] = {}
        replica = ModelReplica(job=self.job, schema=schema, model=built.model(schema), tables=tables, threads=1)
        for number, name in enumerate(replica.model.tables):
            tables[name] = RemoteTable(self.pservers.pulling, number, wire=self.job.cluster.wire)
        self.strategy: TrainerStrategy = STRATEGIES[self.job.resolved_strategy](
            job=self.job, replica=replica, pservers=self.pservers, tables=tables, rank=0
        )
        self.tables = len(tables)
        for server in self.servers:
            assert server.rounds is not None
            server.rounds.begin([0])
        self.strategy.begin(generation=1, start=0, warm=False)
        self.strategy.refresh()

    def batches(self, count: int) -> Iterator[tuple[Batch, int]]:
        """Rows that all have some keys in common, so that pushes overtake pulls of the same rows."""
        slots = len(self.strategy.replica.schema.slots)
        for number in range(count):
            random = np.random.default_rng(number)
            yield (
                Batch(
                    labels=random.integers(0, 2, (ROWS, 1)).astype(np.float32),
                    dense=random.normal(size=(ROWS, self.strategy.replica.schema.dense_width)).astype(np.float32),
                    keys=random.integers(1, 50, ROWS * slots, dtype=np.uint64),
                ),
                (number + 1) * ROWS,
            )

    def counter(self, name: str) -> int:
        return sum(int(server.wire.counters()[name]) for server in self.servers)

    def close(self) -> None:
        self.strategy.close()
        self.pservers.close()
        for server in self.servers:
            server.close()
