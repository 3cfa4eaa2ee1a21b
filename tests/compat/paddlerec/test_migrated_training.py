"""Jobs made of PaddleRec's files train, through the verbs that a user has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.compat.paddlerec.job_files import read_job_file
from clickline.compat.paddlerec.translation.model_names import ZOO
from clickline.compat.paddlerec.translation.workspace_paths import PACKAGED, packaged_names
from clickline.compat.paddlerec.workspace_samples import write_samples
from clickline.train.preflight import check_draft
from support.paddlerec.documented import copied
from support.paddlerec.zoo_configs import write_workspace

runner = CliRunner()


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.parametrize("model", ["dnn", "wide_deep", "din", "mmoe"])
def test_a_migrated_job_trains_on_data_of_the_models_shape(tmp_path: Path, model: str) -> None:
    config = write_workspace(tmp_path, model)
    made = runner.invoke(app, ["migrate", str(config), "-o", "runner.epochs=1", "--output", "job.yaml"])
    assert made.exit_code == 0, made.output
    result = runner.invoke(app, ["train", "job.yaml", "--json"])
    assert result.exit_code == 0, result.output
    trained = json.loads(result.stdout)
    assert trained["rows"] == 60
    assert Path(trained["checkpoint"]).parts[0] == f"output_model_{model}"


def test_the_first_example_of_the_documentation_trains_unmodified(tmp_path: Path) -> None:
    config = copied("single_config", tmp_path)
    assert runner.invoke(app, ["migrate", str(config), "--output", "job.yaml"]).exit_code == 0
    result = runner.invoke(app, ["train", "job.yaml", "--json", "--set", "train.epochs=1"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 120


def test_packaged_sample_data_is_what_the_generator_makes(tmp_path: Path) -> None:
    packaged = PACKAGED / "rank" / "dnn"
    for file in write_samples(tmp_path):
        assert file.read_bytes() == (packaged / file.relative_to(tmp_path)).read_bytes()


@pytest.mark.parametrize("name", packaged_names())
def test_a_packaged_workspace_is_checked_with_its_data_under_the_name_of_every_model(name: str) -> None:
    job = check_draft(read_job_file(name).draft).job
    assert job.model.name == ZOO[name.rpartition(".")[2]]
    assert job.output == f"increment_{name.rpartition('.')[2]}"


def test_a_copy_of_paddlerecs_own_directory_goes_before_the_packaged_one(tmp_path: Path) -> None:
    config = copied("single_config", tmp_path / "dnn")
    assert Path(read_job_file(str(config)).draft.loaded.job.data.train[0]).is_relative_to(PACKAGED)
    (config.parent / "data").mkdir()
    job = read_job_file(str(config)).draft.loaded.job
    assert job.data.train == [str(config.parent / "data" / "sample_data" / "train")]


def test_validate_and_explain_read_a_packaged_config() -> None:
    config = str(PACKAGED / "rank" / "dnn" / "config.yaml")
    result = runner.invoke(app, ["validate", config, "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["valid"]
    assert answer["missing_for_training"] == []
    assert any("not carried: tables grow" in notice["message"] for notice in answer["notices"])
    rows = json.loads(runner.invoke(app, ["explain", config, "--json"]).stdout)
    epochs = next(row for row in rows if row["key"] == "train.epochs")
    assert (epochs["value"], epochs["origin"].partition(" line")[0]) == (4, "file")


def test_validate_looks_for_no_data_of_a_job_that_runs_on_nodes(tmp_path: Path) -> None:
    config, backend = copied("mpi_config", tmp_path), copied("mpi_backend", tmp_path)
    result = runner.invoke(app, ["validate", str(config), "-b", str(backend)])
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{config} is valid\nits run will be in ")


def test_migrate_prints_the_job_and_what_it_could_not_carry(tmp_path: Path) -> None:
    result = runner.invoke(app, ["migrate", str(write_workspace(tmp_path, "fm", rows=1)), "--set", "seed=7"])
    assert result.exit_code == 0
    assert "# hyper_parameters.sparse_feature_number, line " in result.stdout
    job = yaml.safe_load(result.stdout)
    assert job["model"] == {"name": "fm", "embedding_dim": 9}
    assert job["seed"] == 7


def test_migrate_gives_programs_the_job_and_the_notices(tmp_path: Path) -> None:
    config = write_workspace(tmp_path, "dnn", rows=1)
    values = yaml.safe_load(config.read_text())
    values["runner"] |= {"use_inference": True, "model_init_path": "my run/0"}
    config.write_text(yaml.safe_dump(values))
    answer = json.loads(runner.invoke(app, ["migrate", str(config), "--json"]).stdout)
    assert answer["job"]["train"]["epochs"] == 2
    assert answer["options"] == ["--warm-start", "'my run/0'", "--publish", "output_model_dnn/versions"]
    assert {"key", "message", "line"} <= set(answer["notices"][0])


def test_migrate_refuses_with_all_mistakes_and_overwrites_nothing(tmp_path: Path) -> None:
    config = copied("single_config", tmp_path)
    config.write_text(config.read_text().replace("epochs", "epoch").replace("class: train", "class: trian"))
    result = runner.invoke(app, ["migrate", str(config), "--output", "job.yaml"])
    assert result.exit_code == 3
    assert "2 errors" in result.stderr
    assert not Path("job.yaml").exists()
    Path("job.yaml").write_text("mine")
    refused = runner.invoke(app, ["migrate", str(copied("single_config", tmp_path)), "--output", "job.yaml"])
    assert refused.exit_code == 2
    assert Path("job.yaml").read_text() == "mine"
