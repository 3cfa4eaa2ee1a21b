"""Nodes with files of their own, under the same paths: each is trained by its own trainers, every row once.

The processes are on one machine. A node is the number that its processes are given, and the directory they run in.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.clusters import Parts, leases, settings_for, shows_of
from support.training.gated_data import SLOTS, gated_settings, write_gated

pytestmark = pytest.mark.heavy
Orders = dict[int, tuple[int, str]]


def settings(tmp_path: Path, name: str, **changes: Any) -> dict[str, Any]:
    cluster = {"pservers": 1, **changes.pop("cluster", {})}
    made = gated_settings(settings_for({"train": "", "test": ""}, tmp_path, name, cluster=cluster, **changes), "")
    made["data"] |= {"train": ["train_data/*.log"], "placement": "node"}
    return made


def node_of(tmp_path: Path, node: int, *, files: int, rows: int, orders: Orders | None = None) -> Path:
    """The directory of a node, with training files in it."""
    directory = tmp_path / f"node{node}"
    write_gated(directory / "train_data", files=files, rows=rows, orders=orders or {}, seed=node)
    return directory


def start(run: Parts, nodes: Sequence[int], *arguments: str) -> None:
    """The coordinator and the server, in a directory without data, and trainers on these nodes."""
    run.start("coordinator", 0, *arguments, cwd=run.directory.parent)
    run.start("pserver", 0, cwd=run.directory.parent)
    for rank, node in enumerate(nodes):
        start_trainer(run, rank, node)


def start_trainer(run: Parts, rank: int, node: int) -> None:
    run.start("trainer", rank, node=node, cwd=run.directory.parent.parent / f"node{node}")


def rows_by_node(run: Parts) -> dict[int, int]:
    return {book["node"]: book["rows"] for book in run.status().get("nodes", [])}


def test_files_of_one_path_on_two_nodes_are_two_files_that_a_resumed_run_goes_on_with(tmp_path, assemble):
    """In lockstep, which stands still when node 1 waits. The run is killed and resumed with other ranks."""
    one = node_of(tmp_path, 0, files=2, rows=300)
    other = node_of(tmp_path, 1, files=3, rows=400, orders={1: (200, "WAIT go")})
    made = settings(tmp_path, "both", strategy="sync", train={"epochs": 2}, checkpoint={"every_steps": 5})
    made["data"]["test"] = ["test_data"]
    for node, directory in enumerate((one, other)):
        write_gated(directory / "test_data", files=1, rows=100, orders={}, seed=7 + node)
    first = assemble(made, meant_to_end=True)
    start(first, [0, 1])
    saved = first.cuts(2)[-1].manifest["standing"]
    assert saved["epoch"] == 0
    assert [(cut["node"], cut["pieces"]) for cut in saved["cut_nodes"]] == [(0, 2), (1, 3)]
    for name in list(first.started):
        first.kill_hard(name)
    (other / "train_data" / "go").touch()

    run = assemble(made, rows=2 * 1800)
    start(run, [1, 0], "--resume")
    result = run.ends()
    assert (result["rows"], result["repeated_rows"], result["set_aside"]) == (3600, 0, [])
    assert result["nodes"] == [
        {"node": 0, "rows": 1200, "untrained_pieces": 0, "untrained_rows": 0},
        {"node": 1, "rows": 2400, "untrained_pieces": 0, "untrained_rows": 0},
    ]
    assert set(shows_of(run.checkpoints()[-1]).values()) == {3600.0 * SLOTS}
    assert result["test"]["rows"] == 200


def test_a_killed_trainers_piece_goes_on_at_its_node_and_a_node_that_is_gone_is_reported(tmp_path, assemble):
    """Node 1 loses one of two trainers, then the coordinator is killed, and node 2 loses its only one for good."""
    node_of(tmp_path, 0, files=1, rows=100)
    other = node_of(tmp_path, 1, files=2, rows=400, orders={0: (200, "WAIT go"), 1: (200, "WAIT go")})
    node_of(tmp_path, 2, files=2, rows=300, orders={1: (200, "WAIT never")})
    quick = {"trainers": 4, "warn_after": 2, "evict_after": 3, "deadline": 3}
    run = assemble(settings(tmp_path, "killed", cluster=quick, strategy="half_async"), rows=1200)
    start(run, [0, 1, 1, 2])
    run.reaches(lambda: rows_by_node(run).get(0) == 100, "node 0 has nothing more to read")
    run.reaches(lambda: rows_by_node(run).get(2) == 300, "node 2 is in the middle of its second file")
    run.reaches(lambda: {"trainer.1", "trainer.2"} <= leases(run).keys(), "node 1 is in the middle of its files")
    before = leases(run)
    run.kill_hard("trainer.1")
    run.reaches(lambda: any("is gone: piece" in fault for fault in run.status()["faults"]), "its piece is free")
    assert "trainer.0" not in leases(run)
    run.kill_hard("coordinator.0")
    # It is less patient: all that it waits for are there, but those of node 2.
    run.kill_hard("trainer.3")
    run.start("coordinator", 0, "--set", "cluster.start_timeout=8", cwd=run.directory.parent)
    start_trainer(run, 1, 1)
    run.reaches(lambda: leases(run).get("trainer.1") == before["trainer.1"], "another on that node goes on with it")
    (other / "train_data" / "go").touch()
    result = run.ends()
    books = [(book["node"], book["untrained_pieces"], book["untrained_rows"]) for book in result["nodes"]]
    assert books == [(0, 0, 0), (1, 0, 0), (2, 1, None)]
    trained = [book["rows"] for book in result["nodes"]]
    assert trained[:2] == [100, 800]
    assert 300 <= trained[2] <= 500
    assert (result["rows"] - result["repeated_rows"], result["set_aside"]) == (sum(trained), [])
    assert "node 2 has had no trainer for 8 s: 1 of its pieces are not read unless one comes back" in result["faults"]
    assert any(fault.startswith("epoch 1: 1 pieces of node 2 with an unknown") for fault in result["faults"])
