"""A checkpoint of N servers loads on M: every row is there once, where it belongs, and as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.ps.coordinator.pserver_admin import PserverAdmin
from clickline.ps.coordinator.state.record import RecordFile
from clickline.ps.protocol.framing import pack
from clickline.ps.protocol.pserver_messages import DenseRequest
from clickline.ps.server.server import ParameterServer
from clickline.ps.trainer.built_model import BuiltModel
from clickline.train.checkpoints import checkpoint_files
from clickline.train.run_files.run_lock import RunLock
from support.processes import small_settings

COUNTS = (1, 2, 3, 5)
TOKEN = b"a secret of the test"


@pytest.fixture
def job(criteo, tmp_path) -> Job:
    return Job.model_validate({**small_settings(criteo, tmp_path), "strategy": "sync", "cluster": {"pservers": 5}})


@pytest.fixture
def serve(job, tmp_path):
    """Some servers, and a way to send all of them orders."""
    schema = Schema.of(job.data, job.features)
    model = BuiltModel(job).initial(schema)
    opened: list[ParameterServer | PserverAdmin] = []
    lock = RunLock(tmp_path / "run", role="coordinator")

    def make(count: int, checkpoint: Path | None = None) -> tuple[list[ParameterServer], PserverAdmin]:
        name = f"{len(opened)}"
        servers = [
            ParameterServer(job=job, part=part, parts=count, address=f"unix:{tmp_path}/{name}-{part}", token=TOKEN)
            for part in range(count)
        ]
        for server in servers:
            server.set_up(schema)
            server.fetch_model = lambda: model
            server.load(None if checkpoint is None else str(checkpoint), generation=1)
        admin = PserverAdmin(
            job=job,
            model=lambda: model,
            addresses=[s.wire.address for s in servers],
            token=TOKEN,
            client=9,
            file=RecordFile(lock),
        )
        opened.extend([admin, *servers])
        return servers, admin

    yield make
    for each in opened:
        each.close()
    lock.release()


def learn(servers: list[ParameterServer]) -> None:
    """Rows with weights, state, counts and times of their own, and a dense step."""
    from clickline import _native

    rng = np.random.default_rng(4)
    keys = np.unique(rng.integers(1, 1 << 60, 4000, dtype=np.uint64))
    keys = keys[np.argsort([_native.bucket_of(int(key)) for key in keys], kind="stable")]
    lane = _native.Lane(
        [s.wire.address for s in servers], token=TOKEN, job=servers[0].job.name, name="t", client=3, lane=4
    )
    for tick in (1, 2):
        some = keys[::2].copy() if tick == 1 else keys
        for number, table in enumerate(servers[0].tables.values()):
            grads = rng.normal(size=(len(some), table.dim)).astype(np.float32)
            ones = np.ones(len(some), np.float32)
            lane.push(number, some, grads, ones, ones * (tick - 1), np.zeros(len(some), np.uint16), tick=tick)
    sizes = [len(server.block.values) for server in servers]
    gradients = np.split(np.linspace(-1, 1, sum(sizes), dtype=np.float32), np.cumsum(sizes)[:-1])
    lane.call("dense", [pack(DenseRequest(), {"gradient": part}) for part in gradients], once=True)
    lane.close()


def rows(servers: list[ParameterServer]) -> dict[str, dict[int, bytes]]:
    """All that is known of every row; a row at two servers would be a mistake."""
    found: dict[str, dict[int, bytes]] = {}
    for server in servers:
        for name, table in server.tables.items():
            keys = table.keys()
            columns = (table.rows(keys), table.states(keys), table.counts(keys), table.last_seen(keys))
            for place, key in enumerate(keys.tolist()):
                assert key not in found.setdefault(name, {}), "a row is at two servers"
                found[name][key] = b"".join(np.ascontiguousarray(column[place]).tobytes() for column in columns)
    return found


def dense(servers: list[ParameterServer]) -> dict[str, bytes]:
    parts = [server.block.arrays() for server in servers]
    return {
        name: np.concatenate([part[name] for part in parts]).tobytes() if parts[0][name].ndim else b"once"
        for name in parts[0]
    }


@pytest.mark.parametrize("before", COUNTS)
def test_rows_are_identical_on_any_number_of_servers(serve, tmp_path, before):
    servers, admin = serve(before)
    learn(servers)
    manifest = {"step": 1, "standing": {}, "valid": {}, "job": servers[0].job.model_dump(mode="json"), "schema": {}}
    saved = admin.save(tmp_path / "checkpoints", manifest=manifest, buffers={})
    wanted, vector = rows(servers), dense(servers)
    assert all(len(found) > 3000 for found in wanted.values())
    for after in COUNTS:
        others, _ = serve(after, saved.path)
        assert rows(others) == wanted, after
        assert dense(others) == vector, after
        assert all(len(table) for server in others for table in server.tables.values())


def test_a_server_that_took_all_buckets_is_noticed(serve, tmp_path, monkeypatch):
    """What the above is worth: without the choice by bucket, rows are at every server."""
    servers, admin = serve(2)
    learn(servers)
    manifest = {"step": 1, "standing": {}, "valid": {}, "job": servers[0].job.model_dump(mode="json"), "schema": {}}
    saved = admin.save(tmp_path / "checkpoints", manifest=manifest, buffers={})
    chosen = checkpoint_files.load_tables
    monkeypatch.setattr(checkpoint_files, "load_tables", lambda found, tables, **_: chosen(found, tables))
    others, _ = serve(3, saved.path)
    with pytest.raises(AssertionError, match="a row is at two servers"):
        rows(others)
