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
from clickline.ps.trainer.model_replica import Network, Remote
from clickline.ps.trainer.pserver_client import Lines
from clickline.ps.trainer.strategies.async_ import Async
from clickline.ps.trainer.trainer import _WAYS

TOKEN = b"a secret of the test"
ROWS = 20


class ServedWay:
    """Servers, and one trainer's way to learn on them. To be closed."""

    def __init__(self, settings: dict[str, Any], directory: Path, *, servers: int = 1) -> None:
        self.job = Job.model_validate(settings)
        schema = Schema.of(self.job.data, self.job.features)
        self.servers = [
            ParameterServer(job=self.job, part=part, parts=servers, address=f"unix:{directory}/{part}", token=TOKEN)
            for part in range(servers)
        ]
        for server in self.servers:
            server.set_up(schema)
            server.load(None, generation=1)
        addresses = [server.wire.address for server in self.servers]
        self.lines = Lines(job=self.job, addresses=addresses, token=TOKEN, name="trainer.0", client=7)
        tables: dict[str, Remote] = {}
        network = Network(job=self.job, schema=schema, tables=tables, threads=1)
        for number, name in enumerate(network.model.tables):
            tables[name] = Remote(self.lines.pulling, number, wire=self.job.cluster.wire)
        self.way: Async = _WAYS[self.job.way](job=self.job, network=network, lines=self.lines, tables=tables, rank=0)
        self.tables = len(tables)
        for server in self.servers:
            assert server.rounds is not None
            server.rounds.begin([0])
        self.way.begin(generation=1, start=0, warm=False)
        self.way.refresh()

    def batches(self, count: int) -> Iterator[tuple[Batch, int]]:
        """Rows that all have some keys in common, so that pushes overtake pulls of the same rows."""
        slots = len(self.way.network.schema.slots)
        for number in range(count):
            random = np.random.default_rng(number)
            yield (
                Batch(
                    labels=random.integers(0, 2, (ROWS, 1)).astype(np.float32),
                    dense=random.normal(size=(ROWS, self.way.network.schema.dense_width)).astype(np.float32),
                    keys=random.integers(1, 50, ROWS * slots, dtype=np.uint64),
                ),
                (number + 1) * ROWS,
            )

    def counter(self, name: str) -> int:
        return sum(int(server.wire.counters()[name]) for server in self.servers)

    def close(self) -> None:
        self.way.close()
        self.lines.close()
        for server in self.servers:
            server.close()
