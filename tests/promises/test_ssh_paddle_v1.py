"""A command line of PaddlePaddle v1's paddle.py trains on two hosts, and leaves there what v1 left."""

from __future__ import annotations

import json
import sys

import pytest

from clickline.compat.paddle_v1.parameter_files import read_v1_pass
from clickline.publish.checkpoint_source import open_checkpoint_source
from support.hosts.ssh_hosts import PORT, ssh_hosts, unavailable
from support.made_once import clickline_wheel
from support.processes import write_job

pytestmark = pytest.mark.heavy


def test_flags_and_conf_py_of_v1_train_in_a_deployed_workspace_with_a_wheel_for_this_job_alone(
    criteo, tmp_path, tmp_path_factory
):
    if why := unavailable():
        pytest.skip(why)
    with ssh_hosts(tmp_path / "ssh") as hosts:
        addresses = [hosts.network.one.address, hosts.network.other.address]
        (tmp_path / "conf.py").write_text(
            f"HOSTS = {[f'root@{address}:{PORT}' for address in addresses]}\nROOT_DIR = '{hosts.private}/jobs'\n"
            "PADDLE_PORT = 7164\nPADDLE_NIC = 'eth0'\n"
        )
        # The data is found in the workspace only, by a relative path.
        for name in ("one", "other"):
            hosts.on(name, f"mkdir {hosts.private}/demo && ln -s {criteo['train']} {hosts.private}/demo/train.tsv")
        job = write_job(
            tmp_path / "job.yaml",
            {
                "name": "v1",
                "data": {"train": ["train.tsv"], "shuffle_rows": 1000},
                "model": {"name": "deepfm", "embedding_dim": 4, "hidden": [16]},
                "train": {"batch_size": 100},
                "checkpoint": {"keep": 1},
            },
        )
        done = hosts.run(
            *("paddle-v1", f"--job_workspace={hosts.private}/demo", f"--conf={tmp_path}/conf.py", "--num_passes=2"),
            *("--saving_period=1", "--log_period=20", "--dot_period=10", "--use_gpu=0", "--config=./trainer_config.py"),
            *(job, "--set", "seed=7", "--python", sys.executable),
            *("--install", clickline_wheel(tmp_path_factory), "--json"),
        )
        assert done.returncode == 0, done.stderr
        assert "--config=./trainer_config.py is not read" in done.stderr
        assert "PADDLE_NIC of" in done.stderr
        result = json.loads(done.stdout)
        assert result["rows"] == 2 * 4500

        place = f"{hosts.private}/jobs/{result['job']}"
        for node, name in enumerate(("one", "other")):
            assert hosts.on(name, f"cat {place}/nodefile") == f"{node}\n".encode()
            assert b"train.tsv" not in hosts.on(name, f"ls {place}")
            installed = hosts.on(name, f"ls {place}/venv/lib/python3*/site-packages").decode()
            assert "clickline\n" in installed and "torch" not in installed
            assert hosts.processes(name) == []
        output = hosts.fetch("one", f"{place}/output/.", tmp_path / "output")
        record = json.loads(next((hosts.directory / "jobs").glob("JOB*.json")).read_text())
        assert {entry["python"] for entry in record["hosts"]} == {f"{place}/venv/bin/python"}

    # One checkpoint is kept, but every pass.
    (checkpoint,) = (output / "checkpoints").glob("step-*")
    assert sorted(path.name for path in output.glob("pass-*")) == ["pass-00000", "pass-00001"]
    source = open_checkpoint_source(checkpoint, threads=1)
    assert source.job.seed == 7
    parameters = read_v1_pass(output / "pass-00001")
    for name, table in source.learner.sparse.tables.items():
        rows = table.rows(sorted_keys(table))
        assert parameters[f"{name}.w0"].tobytes() == rows.tobytes()
    assert read_v1_pass(output / "pass-00000").keys() == parameters.keys()


def sorted_keys(table):
    keys = table.keys()
    keys.sort()
    return keys
