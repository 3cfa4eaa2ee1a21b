"""The MovieLens example, from the download to its table: here, and on two hosts over ssh."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from support.data.downloads import rated_movielens
from support.hosts.ssh_hosts import SshHosts, ssh_hosts, unavailable

QUICK = [
    word
    for change in (
        "train.batch_size=20",
        "train.epochs=3",
        "model={name: deepfm, hidden: [8], embedding_dim: 4}",
        "tables.embedding.optimizer.learning_rate=0.1",
    )
    for word in ("--set", change)
]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[SshHosts]:
    if why := unavailable():
        pytest.skip(why)
    with ssh_hosts(tmp_path / "ssh") as both:
        yield both


def test_the_models_are_beside_their_baselines(tmp_path: Path) -> None:
    source = str(rated_movielens(tmp_path / "ml-1m.zip"))
    result = CliRunner().invoke(app, ["example", "movielens", source, "--out", str(tmp_path / "out"), "--json", *QUICK])
    assert result.exit_code == 0, result.output
    mean, factors, ratings, likes = json.loads(result.stdout)
    assert (mean["model"], mean["auc"]) == ("mean of all ratings", 0.5)
    assert factors["rmse"] < 0.9 * mean["rmse"]
    assert factors["auc"] > 0.7
    assert (ratings["model"], likes["model"]) == ("deepfm, trained on ratings", "deepfm, trained on likes")
    # The movies' and the users' own stars are there to be learned, whichever model learns them.
    assert ratings["rmse"] < 0.9 * mean["rmse"]
    assert ratings["mae"] < mean["mae"]
    assert likes["auc"] > 0.7
    assert (ratings["auc"], likes["rmse"]) == (None, None)
    assert (tmp_path / "out" / "runs" / "movielens-rating" / "result.json").is_file()


@pytest.mark.heavy
def test_it_runs_on_two_hosts_and_prints_its_table(hosts: SshHosts, tmp_path: Path) -> None:
    source = rated_movielens(tmp_path / "ml-1m.zip")
    addresses = {"one": hosts.network.one.address, "other": hosts.network.other.address}
    file = tmp_path / "hosts.yaml"
    listed = [{"host": name, "address": address} for name, address in addresses.items()]
    file.write_text(yaml.safe_dump({"hosts": listed, "root": str(hosts.private / "jobs"), "piece_bytes": 20_000}))
    options = ["--hosts", file, "--python", sys.executable, "--set", "strategy=sync", *QUICK]
    done = hosts.run("example", "movielens", source, "--out", tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr
    lines = [[cell.strip() for cell in line.strip("│").split("│")] for line in done.stdout.splitlines() if "│" in line]
    table = {name: figures for name, *figures in lines}
    assert list(table) == [
        "mean of all ratings",
        next(name for name in table if name.startswith("matrix factorization, ")),
        "deepfm, trained on ratings",
        "deepfm, trained on likes",
    ]
    assert float(table["deepfm, trained on ratings"][0]) < 0.9 * float(table["mean of all ratings"][0])
    assert float(table["deepfm, trained on likes"][2]) > 0.7
    # Each host had a trainer and a server of both runs; what they left is on the first one.
    assert hosts.on("one", f"ls {hosts.private}/jobs/runs").split() == [b"movielens", b"movielens-rating"]
    for name in addresses:
        assert len(hosts.on(name, f"ls -d {hosts.private}/jobs/*/log/trainer.*").split()) == 2
        assert hosts.processes(name) == []
