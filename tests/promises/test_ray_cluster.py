"""Two nodes of a Ray cluster train one model; what is killed comes back, and nothing is left."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clickline.train.checkpoints import checkpoint_files
from support.eventually import eventually
from support.hosts.held_data import hold
from support.hosts.ray_nodes import RayNodes, ray_nodes, unavailable
from support.paddlerec.submissions import ROWS, write_files, write_logs
from support.processes import run, write_job
from support.training.checkpoint_bits import bits

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    if why := unavailable():
        pytest.skip(why)
    with ray_nodes() as both:
        yield both


def settings(criteo: dict[str, str], place: Path, **changes: Any) -> dict[str, Any]:
    return {
        "name": "placed",
        "seed": 5,
        "output": str(place / "runs"),
        "data": {"train": [criteo["train"]], "test": [criteo["test"]], "shuffle_rows": 1000},
        "model": {"name": "deepfm", "embedding_dim": 4, "hidden": [16]},
        "train": {"batch_size": 100, "log_every": 7, "epochs": 1},
        "strategy": "sync",
        "cluster": {"pservers": 1, "trainers": 2, "piece_bytes": 100_000, "root": str(place / "jobs")},
        **changes,
    }


def long_settings(criteo: dict[str, str], place: Path, *, epochs: int) -> dict[str, Any]:
    """Of a job that takes a while, with checkpoints on the way."""
    content = settings(criteo, place, strategy="async")
    content["train"] = {"batch_size": 10, "log_every": 20, "epochs": epochs}
    content["checkpoint"] = {"every_steps": 200}
    content["cluster"] |= {"pservers": 2, "trainers": 1, "heartbeat": 0.3, "deadline": 2.0, "warn_after": 1.5}
    return content


def job(place: Path, content: dict[str, Any]) -> Path:
    workspace = place / "workspace"
    workspace.mkdir(exist_ok=True)
    (workspace / "notes.txt").write_text("sent to the nodes\n")
    (workspace / ".hidden").write_text("stays here\n")
    return write_job(workspace / "job.yaml", content)


def newest_job(nodes: RayNodes) -> str:
    """By its record."""
    entries = [json.loads(path.read_bytes()) for path in (nodes.directory / "jobs").glob("JOB*.json")]
    return str(max(entries, key=lambda entry: entry["started"])["job"])


def has_checkpoint(place: Path) -> bool:
    return any((place / "runs" / "placed" / "checkpoints").glob("step-*"))


@pytest.mark.parametrize(("strategy", "pservers"), [("sync", 1), ("collective", 0)])
def test_two_nodes_train_the_model_that_one_machine_trains(nodes, criteo, tmp_path, strategy, pservers):
    content = settings(criteo, tmp_path, strategy=strategy)
    content["cluster"] |= {"pservers": pservers, "threads": 1}
    done = nodes.run("train", job(tmp_path, content), "--on", "ray", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["rows"], result["node_losses"]) == (4500, 0)
    near = write_job(tmp_path / "near.yaml", {**content, "output": str(tmp_path / "near")})
    assert run("train", near).returncode == 0
    there, here = (checkpoint_files.find(tmp_path / place / "placed" / "checkpoints") for place in ("runs", "near"))
    assert [c.step for c in there] == [c.step for c in here]
    assert bits(there[-1]) == bits(here[-1])

    assert nodes.roles() == {}
    place = tmp_path / "jobs" / result["job"] / "trainer.1"
    assert (place / "notes.txt").read_text() == "sent to the nodes\n"
    assert not (place / ".hidden").exists()

    # By its record, from where it was started.
    status = json.loads(nodes.run("status", result["job"], "--json").stdout)
    assert (status["job"], status["phase"], status["rows"]) == ("placed", "finished", 4500)
    lines = nodes.run("logs", result["job"], "-n", "1000").stdout.splitlines()
    addresses = {nodes.network.one.address, nodes.network.other.address}
    assert {line.split()[0] for line in lines} == addresses, "the processes are spread over both nodes"


def test_actors_go_by_the_names_of_roles_and_ctrl_c_leaves_no_process(nodes, criteo, tmp_path):
    process = nodes.start("train", job(tmp_path, long_settings(criteo, tmp_path, epochs=500)), "--on", "ray", "--json")
    eventually(lambda: len(nodes.roles()) == 4, process=process)
    names = nodes.actor_names()
    assert [name.partition("/")[2] for name in names] == ["coordinator.0", "pserver.0", "pserver.1", "trainer.0"]
    assert {name.partition("/")[0] for name in names} == {newest_job(nodes)}
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert nodes.roles() == {}
    assert nodes.actor_names() == []


def test_a_launcher_that_is_killed_leaves_nothing_and_its_job_can_be_stopped(nodes, criteo, tmp_path):
    process = nodes.start("train", job(tmp_path, long_settings(criteo, tmp_path, epochs=500)), "--on", "ray", "--json")
    eventually(lambda: has_checkpoint(tmp_path), process=process)
    process.kill()
    process.communicate()
    eventually(lambda: nodes.roles() == {})
    stopped = nodes.run("stop", newest_job(nodes), "--json")
    assert stopped.returncode == 0, stopped.stderr
    assert json.loads(stopped.stdout)["phase"] == "stopped"


def test_a_job_whose_launcher_stands_still_is_stopped_by_its_record(nodes, criteo, tmp_path):
    process = nodes.start("train", job(tmp_path, long_settings(criteo, tmp_path, epochs=500)), "--on", "ray", "--json")
    eventually(lambda: len(nodes.roles()) == 4, process=process)
    process.send_signal(signal.SIGSTOP)
    try:
        # `clickline stop` asks a launcher first that is there, and waits for it for a minute.
        program = (
            "from clickline.launch.job_records import read_record; from clickline.launch.ray.ray_jobs import stop_job;"
            f"import json; print(json.dumps(stop_job(read_record({newest_job(nodes)!r}))))"
        )
        outcome = json.loads(nodes.python(program).stdout.splitlines()[-1])
        assert outcome == dict.fromkeys(("coordinator.0", "pserver.0", "pserver.1", "trainer.0"), "stopped")
        eventually(lambda: nodes.roles() == {})
    finally:
        process.kill()
        process.communicate()


def test_a_server_that_is_killed_comes_back_and_the_run_survives_the_loss_of_a_node(nodes, criteo, tmp_path):
    data, content = hold(criteo["train"], tmp_path / "data"), long_settings(criteo, tmp_path, epochs=1)
    content["data"] |= data.settings
    process = nodes.start("train", job(tmp_path, content), "--on", "ray", "--json")
    eventually(lambda: has_checkpoint(tmp_path), process=process)
    server = next(pid for name, pid in nodes.roles().items() if "pserver" in name)
    os.kill(server, signal.SIGKILL)
    eventually(
        lambda: server not in nodes.roles().values() and sum("pserver" in name for name in nodes.roles()) == 2,
        process=process,
    )
    # The coordinator is on the first node, so the second has a server at least.
    assert any(name.startswith("other pserver") for name in nodes.roles())
    nodes.kill_node(nodes.network.other)
    data.let_go()
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    result = json.loads(out)
    assert result["node_losses"] == 1
    assert result["rows"] - result["repeated_rows"] == 4500
    said = (nodes.directory / "jobs" / f"{result['job']}.log").read_text()
    assert f"{nodes.network.other.address}; everything is placed anew on the nodes that are left" in said


def test_a_submission_runs_its_hooks_once_on_each_node(nodes, tmp_path):
    write_logs(tmp_path / "store")
    write_files(tmp_path / "dnn", url=f"file://{tmp_path}/store")
    for hook in ("before_hook", "end_hook"):
        script = f'echo "{hook} $CLICKLINE_NODE $(ls train_data 2> /dev/null | wc -l)" >> {tmp_path}/hooks\n'
        (tmp_path / "dnn" / f"{hook}.sh").write_text(script)
    words = [
        "submit",
        "-m",
        "config.yaml",
        "-b",
        "backend.yaml",
        "--on",
        "ray",
        "--set",
        f"cluster.root={tmp_path}/jobs",
    ]
    files = ["--files", "./*.sh ./*.py", "--set", "train.epochs=1", "--set", f"output={tmp_path}/runs"]
    done = nodes.run(*words, *files, "--wait", "--json", directory=tmp_path / "dnn")
    assert done.returncode == 0, done.stderr
    submitted = json.loads(done.stdout)
    assert submitted["result"]["rows"] == 2 * ROWS
    # Each node has all files, since Ray may start a trainer anywhere; it spreads processes as far as it can.
    listed = {entry["job"]: entry["hosts"] for entry in json.loads(nodes.run("jobs", "--json").stdout)}
    used = range(len({place["host"] for place in listed[submitted["jobId"]]}))
    ran = sorted((tmp_path / "hooks").read_text().splitlines())
    assert ran == [f"before_hook {node} 0" for node in used] + [f"end_hook {node} 2" for node in used]
    assert json.loads((tmp_path / "store/models/PaddleRec_CTR/result.json").read_text())["rows"] == 2 * ROWS
    assert nodes.roles() == {}
