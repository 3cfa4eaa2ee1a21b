"""Ranks that do not come, fail, or are killed: the others say so and end, within seconds."""

from __future__ import annotations

import signal
import time

import pytest

from clickline.collective.rank import read_rank
from clickline.errors import PeerError
from support.processes import small_settings, write_job
from support.training.rank_processes import ends, start_ranks

pytestmark = pytest.mark.heavy


@pytest.fixture
def job(criteo, tmp_path):
    settings = small_settings(criteo, tmp_path)
    settings["cluster"] = {"piece_bytes": 50_000}
    return write_job(tmp_path / "job.yaml", settings)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_ends_all_within_seconds(job, victim):
    processes = start_ranks(3, job, "--die", str(victim), "5", "kill")
    processes[victim].wait(timeout=100)
    done = ends(processes, within=60)  # `cluster.retry_for` is longer
    for rank, one in enumerate(done):
        if rank == victim:
            assert one.code == -9
        else:
            assert one.code == 7, one.err
            assert f"rank {rank} of 3 lost its peers" in one.err
            assert f"rank {victim} " in one.err.splitlines()[-1]
            assert "gone without a word" in one.err
            assert "Traceback" not in one.err
            assert "frame #" not in one.err


@pytest.mark.parametrize("victim", [0, 1])
def test_a_failing_ranks_reason_is_everybodys(job, victim):
    processes = start_ranks(2, job, "--set", f"train.staleness={victim}", "--die", str(victim), "5", "raise")
    done = ends(processes, within=60)
    assert done[victim].code == 1
    for rank, one in enumerate(done):
        assert "the moon is full at step 5" in one.err, one.err
        if rank != victim:
            assert one.code == 7
            assert f"rank {victim} failed: ClicklineError" in one.err


@pytest.mark.parametrize("chosen", [[0], [1], [0, 1]])
def test_an_interrupt_ends_all_and_leaves_no_half_checkpoint(job, tmp_path, chosen):
    processes = start_ranks(2, job, "--set", "train.epochs=500", "--set", "checkpoint.every_steps=3")
    saves = tmp_path / "runs" / "small" / "checkpoints"
    until = time.monotonic() + 100
    while not list(saves.glob("step-*")):
        assert time.monotonic() < until
        time.sleep(0.05)
    for rank in chosen:
        processes[rank].send_signal(signal.SIGINT)
    for one in ends(processes, within=60):  # whoever is told to stop, all write a checkpoint together and end
        assert one.code == 130, one.err
    assert not list(saves.glob(".writing-*"))


def test_a_stuck_rank_is_not_waited_for_for_ever(job):
    processes = start_ranks(2, job, "--set", "cluster.retry_for=5", "--die", "1", "5", "stop")
    err = processes[0].communicate(timeout=100)[1]
    processes[1].kill()
    processes[1].communicate()
    assert processes[0].returncode == 7
    assert "rank 1 gone without a word (killed, or stuck?) (no answer for 5 s, cluster.retry_for)" in err


def test_a_rank_that_does_not_come_is_named(job):
    for some in (range(2), range(1, 2)):
        done = ends(start_ranks(3, job, "--set", "cluster.start_timeout=4", only=some), within=60)
        assert {one.code for one in done} == {7}
        if 0 in some:
            assert "rank 2 of 3 did not come to 127.0.0.1" in done[0].err
        else:
            assert "found nobody at 127.0.0.1" in done[0].err


def test_ranks_of_different_jobs_refuse_each_other(job):
    done = ends(start_ranks(2, job, own={1: ["--set", "train.batch_size=101"]}), within=60)
    for one in done:
        assert one.code == 7
        assert "rank 1 has another job than rank 0" in one.err


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "RANK is ''"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "numbered from 0"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR is not set"),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "x"}, "MASTER_PORT is 'x'"),
        (
            {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1", "CLICKLINE_DEVICE": "tpu"},
            "known devices: cpu, cuda",
        ),
    ],
)
def test_a_wrong_environment_is_explained(environment, message):
    with pytest.raises(PeerError, match=message):
        read_rank(environment)
