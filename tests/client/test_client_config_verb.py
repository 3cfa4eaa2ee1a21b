"""`clickline client-config`: what it writes works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from clickline.cli.all_verbs import app
from clickline.compat.elasticctr.elasticctr_client import ElasticCTRAPI
from support.doubles.predictor_double import PredictorDouble
from support.processes import ENVIRONMENT


def write(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["client-config", *map(str, arguments)])


@pytest.fixture
def client(double: PredictorDouble, tmp_path: Path) -> Path:
    """Written for a suite that runs."""
    (tmp_path / "suite.json").write_text(json.dumps({"http": double.url, "model": "ctr"}), encoding="utf-8")
    result = write(tmp_path, "--out", tmp_path / "client")
    assert result.exit_code == 0, result.output
    return tmp_path / "client"


def test_the_program_runs_and_is_short(double: PredictorDouble, client: Path) -> None:
    done = subprocess.run(
        [sys.executable, client / "predict.py"], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "version=7" in done.stdout
    lines = [line for line in (client / "predict.py").read_text(encoding="utf-8").splitlines() if line]
    assert len(lines) <= 10
    assert json.loads(double.asked[-1][2]) == json.loads((client / "sample.json").read_text(encoding="utf-8"))


def test_what_is_written(double: PredictorDouble, client: Path) -> None:
    settings = yaml.safe_load((client / "client.yaml").read_text(encoding="utf-8"))
    assert (settings["url"], settings["model"]) == (double.url, "ctr")
    assert settings["columns"][2] == {"name": "tags", "type": "BYTES", "several": True}
    assert (client / "slot.conf").read_text(encoding="utf-8") == "C1\ntags\n"
    prototxt = (client / "predictors.prototxt").read_text(encoding="utf-8")
    assert f'cluster: "list://{double.url.removeprefix("http://")}"' in prototxt
    assert prototxt.count("{") == prototxt.count("}") == 8


def test_the_older_client_reads_the_older_files(double: PredictorDouble, client: Path) -> None:
    api = ElasticCTRAPI("127.0.0.1", double.server_address[1])
    assert api.read_slots_conf(client / "slot.conf") == 0
    api.add_slot(api.add_instance(), "C1", [5])
    assert api.inference()["predictions"] == [{"prob0": 0.75, "prob1": 0.25}]
    api.close()


def test_a_predictor_by_its_address_and_a_sample_from_a_log(double: PredictorDouble, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("label,I1,C1\n0,41,abc\n", encoding="utf-8")
    result = write("--url", double.url, "--out", tmp_path / "c", "--file", tmp_path / "log.csv", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["model"], said["version"]) == ("ctr", 7)
    assert sorted(said["files"]) == sorted(path.name for path in (tmp_path / "c").iterdir())
    assert json.loads((tmp_path / "c" / "sample.json").read_text(encoding="utf-8")) == {
        "instances": [{"I1": "41", "C1": "abc"}]
    }


@pytest.mark.parametrize("text", [None, "{", "[]", '{"http": null}'])
def test_without_a_suite_nothing_is_written(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "suite.json").write_text(text, encoding="utf-8")
    result = write(tmp_path, "--out", tmp_path / "client")
    assert result.exit_code == 7
    assert str(tmp_path) in result.stderr  # which suite was meant
    assert not (tmp_path / "client").exists()
