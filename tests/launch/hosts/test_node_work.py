"""What a runner does on its node before and after the processes of a job, and that nothing starts without it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from clickline.errors import PeerError
from clickline.launch.hosts.host_messages import HostPlan, NodeFetch, NodeSteps, PlannedProcess
from clickline.launch.hosts.node_work import NodeWork
from clickline.launch.hosts.plans.job_plan import with_steps
from support.eventually import eventually
from support.small_disks import small_disk


def work(place: Path, *, stopped: Callable[[], bool] = lambda: False, **steps: object) -> NodeWork:
    place.mkdir(parents=True, exist_ok=True)
    given = msgspec.convert(steps, NodeSteps)
    plan = HostPlan(
        job="JOB1", node=0, directory=str(place), job_file="", processes=[], output=str(place / "run"), steps=given
    )
    return NodeWork(plan, stopped=stopped)


@pytest.fixture
def logs(tmp_path: Path) -> str:
    """Five files and a hidden one, at a URL."""
    place = tmp_path / "logs" / "day"
    place.mkdir(parents=True)
    for name in ("a", "b", "c", "d", "e", ".hidden"):
        (place / name).write_text(name)
    return f"file://{tmp_path}/logs"


def test_nodes_fetch_their_shares_as_paddlepaddle_splits_files(tmp_path: Path, logs: str) -> None:
    fetch = NodeFetch(url=logs, directory="train_data", share=True)
    for node, names in enumerate((["a", "b", "c"], ["d", "e"])):
        place = tmp_path / str(node)
        assert work(place, fetches=[fetch], node=node, nodes=2).prepare()
        assert sorted(path.name for path in (place / "train_data" / "day").iterdir()) == names
    with pytest.raises(PeerError, match=r"has 5 files for 6 nodes, each of which trains files of its own: split them"):
        work(tmp_path / "more", fetches=[fetch], nodes=6).prepare()


def test_a_path_is_linked_and_what_is_missing_is_named(tmp_path: Path, logs: str) -> None:
    path = logs.removeprefix("file://")
    assert work(tmp_path / "n", fetches=[NodeFetch(url=path, directory="afs")]).prepare()
    assert (tmp_path / "n/afs/day/a").read_text() == "a"
    with pytest.raises(PeerError, match=r"none is not there: mount it on every node"):
        work(tmp_path / "m", fetches=[NodeFetch(url=f"{path}/none", directory="afs")]).prepare()
    with pytest.raises(PeerError, match=r"no files there|not there"):
        work(tmp_path / "o", fetches=[NodeFetch(url=f"{logs}/none", directory="data")]).prepare()


def test_a_script_fails_with_its_exit_code_and_last_lines(tmp_path: Path) -> None:
    place = tmp_path / "n"
    place.mkdir()
    (place / "before_hook.sh").write_text("for i in 1 2 3 4 5 6 7; do echo line $i; done; exit 9\n")
    message = r"before_hook\.sh failed with exit code 9: line 3 / line 4 / line 5 / line 6 / line 7; its log is .*"
    with pytest.raises(PeerError, match=message):
        work(place, before="before_hook.sh").prepare()
    with pytest.raises(PeerError, match=r"end_hook\.sh cannot be read"):
        work(place, after="end_hook.sh").finish()


def test_a_script_knows_its_node_and_variables_and_no_credential(tmp_path: Path) -> None:
    place = tmp_path / "n"
    place.mkdir()
    (place / "hook.sh").write_text("#!/usr/bin/env sh\nenv > seen\n")
    steps = {"before": "hook.sh", "node": 3, "environment": {"MINE": "1"}, "storage": {"password": "planted"}}
    assert work(place, **steps).prepare()
    seen = (place / "seen").read_text()
    assert "CLICKLINE_NODE=3\n" in seen and "MINE=1\n" in seen
    assert "planted" not in seen


def test_what_was_prepared_is_not_prepared_again(tmp_path: Path) -> None:
    place = tmp_path / "n"
    place.mkdir()
    (place / "hook.sh").write_text("echo once >> ran\n")
    for _ in range(2):
        assert work(place, before="hook.sh").prepare()
    assert (place / "ran").read_text() == "once\n"


def test_a_script_ends_with_all_it_has_started_when_the_launcher_is_gone(tmp_path: Path) -> None:
    place = tmp_path / "n"
    place.mkdir()
    (place / "hook.sh").write_text("sleep 600 & echo $! > child\nwait\n")
    child = place / "child"
    begun = work(place, before="hook.sh", stopped=lambda: child.exists() and bool(child.read_text().strip()))
    assert not begun.prepare()
    eventually(lambda: not _runs(int(child.read_text())))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_full_disk_is_told_and_no_half_of_the_data_is_there(tmp_path: Path, logs: str) -> None:
    Path(logs.removeprefix("file://"), "day", "large").write_bytes(os.urandom(300_000))
    with small_disk(tmp_path / "disk", size=200_000) as disk:
        place = disk.path / "n"
        with pytest.raises(PeerError, match=rf"{logs} into {place}/train_data: .*No space left on device"):
            work(place, fetches=[NodeFetch(url=logs, directory="train_data")]).prepare()
        assert not (place / "train_data").exists()


def test_the_run_is_copied_under_its_name_and_an_error_shows_no_secret(tmp_path: Path) -> None:
    place = tmp_path / "n"
    (place / "run" / "checkpoints").mkdir(parents=True)
    (place / "run" / "checkpoints" / "a").write_text("a")
    (place / "run" / ".lock").touch()
    assert work(place, upload=f"file://{tmp_path}/models").finish()
    copied = sorted(str(path.relative_to(tmp_path / "models")) for path in (tmp_path / "models").rglob("*"))
    assert copied == ["run", "run/checkpoints", "run/checkpoints/a"]
    with pytest.raises(PeerError) as refused:
        work(place, upload="webhdfs://127.0.0.1:9/x", storage={"user": "u", "password": "planted"}).finish()
    assert "planted" not in str(refused.value)


def test_steps_are_on_the_first_plan_of_each_machine_and_shares_on_those_that_train() -> None:
    def plan(node: int, machine: str, *roles: str) -> HostPlan:
        processes = [PlannedProcess(role=role, rank=node) for role in roles]
        environment = {"CLICKLINE_NODE": machine}
        return HostPlan(
            job="J", node=node, directory=f"/{node}", job_file="", processes=processes, environment=environment
        )

    plans = [
        plan(0, "0", "coordinator", "pserver"),
        plan(1, "1", "trainer"),
        plan(2, "1", "trainer"),
        plan(3, "2", "trainer"),
    ]
    fetches = [NodeFetch(url="a", directory="train_data", share=True), NodeFetch(url="b", directory="test_data")]
    steps = NodeSteps(before="b.sh", upload="u", fetches=fetches, environment={"MINE": "1", "CLICKLINE_NODE": "9"})
    made = with_steps(plans, steps)
    assert [each.awaits_start for each in made] == [True] * 4
    assert [each.workspace for each in made] == ["/0", "/1", "/1", "/3"]
    assert [each.environment for each in made] == [{"MINE": "1", "CLICKLINE_NODE": m} for m in ("0", "1", "1", "2")]
    found = [
        each.steps and (each.steps.node, each.steps.nodes, len(each.steps.fetches), each.steps.upload) for each in made
    ]
    assert found == [(0, 2, 1, "u"), (0, 2, 2, ""), None, (1, 2, 2, "")]
    assert with_steps(plans, None) == plans
