"""Two hosts that share nothing keep a run in a bucket: one of them uploads it, and any of them goes on from there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.doubles.s3_server import VARIABLES
from support.eventually import eventually
from support.hosts.ssh_hosts import SshHosts, ssh_hosts, unavailable
from support.processes import write_job

pytestmark = pytest.mark.heavy
PORT = 5000
ENDPOINT = f"http://198.18.7.3:{PORT}"
_MAKE_BUCKET = f"import boto3; boto3.client('s3', endpoint_url='{ENDPOINT}').create_bucket(Bucket='kept')"


def job(hosts: SshHosts, criteo: dict[str, str], place: Path, names: tuple[str, str], **changes: Any) -> Path:
    addresses = {"one": hosts.network.one.address, "other": hosts.network.other.address}
    entries = [{"host": name, "address": addresses[name], "python": sys.executable} for name in names]
    content = {
        "name": "far",
        "seed": 5,
        "output": "s3://kept/runs",
        "data": {"train": [criteo["train"]], "test": [criteo["test"]], "shuffle_rows": 1000},
        "model": {"name": "deepfm", "embedding_dim": 4, "hidden": [16]},
        "train": {"batch_size": 100, "log_every": 7, "epochs": 1},
        "strategy": "sync",
        "cluster": {"hosts": entries, "root": str(hosts.private / "jobs"), "piece_bytes": 100_000, "threads": 1},
        **changes,
    }
    place.mkdir()
    return write_job(place / "job.yaml", content)


def test_a_run_in_a_bucket_goes_on_from_another_host_by_another_strategy_and_is_published(criteo, tmp_path):
    if why := unavailable():
        pytest.skip(why)
    # The client has no credentials: hosts take them from the environment of their logins.
    with ssh_hosts(tmp_path / "ssh", login_environment={**VARIABLES, "AWS_ENDPOINT_URL": ENDPOINT}) as hosts:
        on_client = ["ip", "netns", "exec", hosts.client.namespace, sys.executable]
        with (tmp_path / "moto.log").open("wb") as log:
            server = subprocess.Popen(
                [*on_client, "-m", "moto.server", "-H", "198.18.7.3", "-p", str(PORT)], stderr=log
            )
        try:
            make = [*on_client, "-c", _MAKE_BUCKET]
            eventually(
                lambda: subprocess.run(make, env={**hosts.environment, **VARIABLES}, check=False).returncode == 0
            )
            first = hosts.run("train", job(hosts, criteo, tmp_path / "a", ("one", "other")), "--on", "ssh", "--json")
            assert first.returncode == 0, first.stdout + first.stderr
            assert json.loads(first.stdout)["url"] == "s3://kept/runs/far"

            ranks = {"strategy": "collective", "train": {"batch_size": 100, "log_every": 7, "epochs": 2}}
            path = job(hosts, criteo, tmp_path / "b", ("other", "one"), **ranks)
            second = hosts.run("train", path, "--on", "ssh", "--resume", "--json")
            assert second.returncode == 0, second.stdout + second.stderr
            result = json.loads(second.stdout)
            assert (result["host"], result["rows"]) == ("other", 2 * 4500)

            hosts.variables.update(VARIABLES, AWS_ENDPOINT_URL=ENDPOINT, CLICKLINE_CACHE=str(tmp_path / "cache"))
            store = tmp_path / "versions"
            published = hosts.run("publish", "s3://kept/runs/far", "--to", store, "--json")
            assert published.returncode == 0, published.stderr
            assert json.loads(published.stdout)["version"] == 1
            measured = hosts.run("evaluate", "s3://kept/runs/far", criteo["test"], "--json")
            assert json.loads(measured.stdout)["auc"] == pytest.approx(result["test"]["auc"], abs=1e-6)
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()
