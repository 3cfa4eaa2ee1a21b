"""Servers that do not see the run's directory: their checkpoints travel to the coordinator, and back to them."""

from __future__ import annotations

from typing import Any

import pytest

from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.checkpoints.dense_tensors import dense_tensors
from support.clusters import settings_for

pytestmark = pytest.mark.heavy


def changes(**more: Any) -> dict[str, Any]:
    return {
        "strategy": "sync",
        "train": {"epochs": 4},
        "checkpoint": {"every_steps": 25, "transfer": "network"},
        "data": {"test": []},
        **more,
    }


def bits(checkpoint: Checkpoint) -> dict[str, bytes]:
    """Everything that was learned."""
    files = [name for name in checkpoint.manifest["files"] if name.startswith("table-")]
    tensors = {name: t.numpy().tobytes() for name, t in dense_tensors(checkpoint).items() if "random" not in name}
    return {**{name: (checkpoint.path / name).read_bytes() for name in files}, **tensors}


def test_a_run_whose_checkpoints_travel_ends_with_the_same_bits_whoever_dies(criteo, tmp_path, launch):
    shared = launch(settings_for(criteo, tmp_path, "shared", **changes(checkpoint={"every_steps": 25})))
    shared.ends()
    assert "checkpoints travel" not in shared.err

    far = launch(settings_for(criteo, tmp_path, "far", **changes()), rows=4 * 4500)
    far.cuts(2)
    far.kill("pserver.0")
    result = far.ends()
    assert "checkpoints travel over the network: pserver.0 on" in far.err
    assert result["generation"] > 1, "they did not go back"
    assert (result["lost_pushes"], result["repeated_rows"]) == (0, 0)
    assert [c.step for c in far.checkpoints()] == [c.step for c in shared.checkpoints()]
    for mine, theirs in zip(far.checkpoints(), shared.checkpoints(), strict=True):
        checkpoint_files.verify(mine)
        assert bits(mine) == bits(theirs)
    # Both loaded a copy: the one that was killed fetched all of it, the other had its tables at hand.
    assert "copy-step-" in far.log("pserver.0")
    assert "copy-step-" in far.log("pserver.1")


def test_a_run_goes_on_with_weights_that_travel(criteo, tmp_path, launch):
    """A warm start, whose rows restart from the given ones at each epoch, with more servers than before."""
    first = launch(settings_for(criteo, tmp_path, "first", **changes(train={"epochs": 1})))
    first.ends()
    given = str(first.checkpoints()[-1].path)
    more = {"train": {"epochs": 2}, "cluster": {"pservers": 3}}
    far = launch(settings_for(criteo, tmp_path, "far", **changes(**more)), "--warm-start", given)
    far.ends()
    more |= {"checkpoint": {"every_steps": 25}}
    near = launch(settings_for(criteo, tmp_path, "near", **changes(**more)), "--warm-start", given)
    near.ends()
    assert bits(far.checkpoints()[-1]) == bits(near.checkpoints()[-1])


def test_a_directory_that_must_be_shared_and_is_not_ends_the_run_at_its_start(criteo, tmp_path, assemble):
    settings = settings_for(criteo, tmp_path, "must", **changes(checkpoint={"transfer": "directory"}))
    run = assemble(settings)
    run.start("coordinator")
    # Another file in place of the lock stands for another host's directory of the same path.
    run.reaches((run.directory / ".run.lock").exists, "the coordinator has the directory")
    (run.directory / ".run.lock").unlink()
    server = run.start("pserver", 0)
    assert server.wait(60) == 6
    said = run.log("pserver.0")
    assert f"pserver.0 does not see the run's directory, {run.directory} on the coordinator's host" in said
    assert "checkpoint.transfer is directory" in said
