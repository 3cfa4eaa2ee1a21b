"""A run of many processes has one writer, and what it has written is enough to go on, wherever it was killed."""

from __future__ import annotations

import json
import os
import signal

import pytest

from clickline.errors import PeerError
from clickline.train.checkpoints import checkpoint_files
from clickline.train.run_files.run_lock import FILE, RunLock
from support.clusters import PATIENCE, free_ports, settings_for
from support.eventually import eventually
from support.faulty_proxy import Chances, UnreliableProxy

pytestmark = pytest.mark.heavy
SMALLEST = {"pservers": 1, "trainers": 1}


def standing_of(run):
    return json.loads((run.directory / "coordinator.json").read_text())


def test_a_coordinator_holds_the_directory_and_a_killed_one_does_not(criteo, tmp_path, assemble):
    run = assemble(settings_for(criteo, tmp_path, "held"), meant_to_end=True)
    first = run.start("coordinator")
    run.reaches((run.directory / FILE).exists, "the directory is taken")
    eventually((run.directory / FILE).read_text, process=first, what="its holder is named")
    with pytest.raises(PeerError, match=f"in use by coordinator, process {first.pid} on host .*, since 20"):
        RunLock(run.directory, role="test")
    second = run.start("coordinator")
    assert second.wait(PATIENCE) == PeerError.exit_code
    assert f"in use by coordinator, process {first.pid}" in run.log("coordinator.0")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    RunLock(run.directory, role="test").release()


@pytest.mark.parametrize("way", ["async", "sync"])
def test_a_coordinator_that_was_stopped_replaced_and_woken_changes_nothing(criteo, tmp_path, assemble, way):
    """The second comes where the first one's lock does not reach: here, because the locked file was removed."""
    settings = settings_for(
        criteo, tmp_path, f"woken-{way}", strategy=way, train={"epochs": 3}, checkpoint={"every_steps": 20}
    )
    run = assemble(settings, rows=3 * 4500)
    service = UnreliableProxy(run.coordinator, Chances(), seed=1)
    run.shared["CLICKLINE_COORDINATOR"] = service.address
    run.start_all()
    first = run.process
    run.cuts(2)
    run.hit(first.pid, signal.SIGSTOP)
    assert standing_of(run)["writer_epoch"] == 1
    (run.directory / FILE).unlink()
    run.coordinator = f"tcp:127.0.0.1:{free_ports(1)[0]}"
    run.start("coordinator")
    service.retarget(run.coordinator)
    run.reaches(lambda: standing_of(run)["writer_epoch"] == 2, "the second has noted where the run stands")
    os.kill(first.pid, signal.SIGCONT)
    assert first.wait(PATIENCE) == 9
    assert "was taken over by coordinator, process" in run.log("coordinator.0")
    result = run.ends()
    service.close()
    assert result["rows"] - result["repeated_rows"] == 3 * 4500
    assert result["repeated_rows"] == 0
    assert standing_of(run)["writer_epoch"] == 2
    assert run.checkpoints()[-1].manifest["standing"]["rows"] == result["rows"]


@pytest.mark.parametrize("point", ["standing.written:6", "checkpoint.in-place:2"])
def test_a_coordinator_killed_while_it_writes_is_taken_up(criteo, tmp_path, assemble, monkeypatch, point):
    settings = settings_for(criteo, tmp_path, "noted", checkpoint={"every_steps": 20}, cluster=SMALLEST)
    run = assemble(settings, rows=4500)
    monkeypatch.setenv("CLICKLINE_FAIL_AT", point)
    first = run.start("coordinator")
    monkeypatch.delenv("CLICKLINE_FAIL_AT")
    run.start("pserver")
    run.start("trainer")
    assert first.wait(PATIENCE) == -signal.SIGKILL
    run.start("coordinator")
    result = run.ends()
    assert "taking up the run" in run.log("coordinator.0")
    assert result["rows"] - result["repeated_rows"] == 4500
    assert not list(run.directory.glob(".*.new"))
    assert not list((run.directory / "checkpoints").glob(".*"))


def test_a_coordinator_killed_between_two_epochs_does_not_train_the_first_again(
    criteo, tmp_path, assemble, monkeypatch
):
    """The leases are over, and what follows an epoch is not done yet."""
    settings = settings_for(criteo, tmp_path, "between", train={"epochs": 2}, cluster=SMALLEST)
    run = assemble(settings, rows=9000)
    monkeypatch.setenv("CLICKLINE_FAIL_AT", "standing.epoch-ended")
    first = run.start("coordinator")
    monkeypatch.delenv("CLICKLINE_FAIL_AT")
    run.start("pserver")
    run.start("trainer")
    assert first.wait(PATIENCE) == -signal.SIGKILL
    assert (standing_of(run)["epoch"], standing_of(run)["rows"]) == (1, 4500)
    run.start("coordinator")
    result = run.ends()
    assert (result["rows"], result["repeated_rows"]) == (9000, 0)
    assert [epoch["rows"] for epoch in result["epochs"]] == [4500, 4500]


def test_a_torn_standing_means_going_back_to_the_newest_checkpoint(criteo, tmp_path, assemble):
    settings = settings_for(
        criteo, tmp_path, "torn", train={"epochs": 2}, checkpoint={"every_steps": 20}, cluster=SMALLEST
    )
    run = assemble(settings, rows=9000)
    run.start_all()
    run.cuts(2)
    run.kill_hard("coordinator.0")
    whole = (run.directory / "coordinator.json").read_text()
    (run.directory / "coordinator.json").write_text(whole[: len(whole) // 2])
    run.start("coordinator")
    result = run.ends()
    assert result["rows"] == 9000
    assert "coordinator.json: not readable" in result["faults"][0]
    assert "all go on from" in result["faults"][0]


def test_a_damaged_checkpoint_is_refused_and_the_sound_one_before_it_is_named(criteo, tmp_path, launch):
    changes = {"checkpoint": {"every_steps": 30}, "cluster": SMALLEST}
    launch(settings_for(criteo, tmp_path, "rotten", **changes), rows=4500).ends()
    *_, before, newest = checkpoint_files.find(tmp_path / "runs" / "rotten" / "checkpoints")
    dense = newest.path / "dense.safetensors"
    content = bytearray(dense.read_bytes())
    content[-9] ^= 64
    dense.write_bytes(content)
    settings = settings_for(criteo, tmp_path, "rotten", train={"epochs": 2}, **changes)
    refused = launch(settings, "--resume", meant_to_end=True)
    refused.ends(6)
    said = " ".join(refused.err.split())
    assert f"{dense}: damaged" in said
    assert f"`clickline train JOB --resume-from {before.path}` resumes from it" in said
    assert launch(settings, "--resume-from", str(before.path), rows=9000).ends()["rows"] == 9000
