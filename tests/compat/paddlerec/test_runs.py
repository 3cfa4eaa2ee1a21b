"""clickline run: runners of PaddleRec's config.yaml in their order, and what they leave where PaddleRec had it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.compat.paddlerec.reading.config_files import read_config
from clickline.compat.paddlerec.running.runner_sequence import RunnerSequence
from clickline.errors import DataError, PeerError
from clickline.progress import LogOnly
from clickline.publish.checkpoint_source import open_checkpoint_source
from clickline.train.checkpoints import checkpoint_manifest
from clickline.train.session import train_job
from clickline.versions.manifest import MANIFEST
from support.paddlerec.documented import FILES, copied
from support.paddlerec.zoo_configs import write_workspace

SHIM = Path(__file__).parents[3] / "shims" / "paddlerec" / "src"
LINE = (
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - INFO: "
    r"\t\[Train\] epoch: (\d+), batch: (\d+), time_each_interval: \d+\.\d\ds, LOSS: \d\.\d+(, (BATCH_)?AUC: \d\.\d+)*"
)


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def config(**runner: object) -> dict[str, Any]:
    """The first example of the documentation, with few and small steps."""
    values: dict[str, Any] = yaml.safe_load((FILES / "single_config.yaml").read_text())
    values["dataset"][0]["batch_size"] = 20
    values["runner"][0] |= {"epochs": 2, "save_checkpoint_interval": 1, "print_interval": 3} | runner
    values["hyper_parameters"] = {"optimizer": "adam", "fc_sizes": [8], "sparse_feature_dim": 2}
    return values


def run(values: dict[str, Any], arguments: Sequence[str] = ()) -> Any:
    Path("config.yaml").write_text(yaml.safe_dump(values))
    result = CliRunner().invoke(app, ["run", "-m", "config.yaml", "--json", *arguments])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_packaged_example_runs_by_the_command_that_paddlerec_had() -> None:
    quick = ["-o", "dataset[0].batch_size=20", "runner[0].epochs=2", "runner[0].save_checkpoint_interval=1"]
    # The module paddlerec is of an extra, which calls clickline.run; tests/setup/wheel_up.py has it from its wheel.
    command = [sys.executable, "-m", "paddlerec.run", "-m", "paddlerec.models.rank.dnn", *quick]
    result = subprocess.run(
        [*command, "runner[0].print_interval=3"],
        env={**os.environ, "PYTHONPATH": str(SHIM)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    said = result.stderr.splitlines()
    begun = [line for line in said if line.startswith("PaddleRec")]
    assert begun == [
        "PaddleRec: Runner single_cpu_train Begin",
        "PaddleRec: Runner single_cpu_infer Begin",
        "PaddleRec Finish",
    ]
    lines = [match.groups()[:2] for line in said if (match := re.fullmatch(LINE, line))]
    assert lines == [("0", "3"), ("0", "6"), ("1", "3"), ("1", "6")]
    ends = [re.fullmatch(r"epoch (\d) done, use time: \d+\.\d\d, global metrics: LOSS=\S+, AUC=\S+", x) for x in said]
    assert [match[1] for match in ends if match] == ["0", "1"]
    assert 'save epoch_id:1 model into: "increment_dnn/1"' in said
    infer = [line for line in said if line.startswith("Infer phase2 of epoch")]
    assert [line.split()[4] for line in infer] == ["0", "1"]
    assert all(re.search(r"use time: \d+\.\d\d, global metrics: AUC=0\.\d{6}", line) for line in infer)
    assert Path("increment_dnn/1").resolve().parent.parent == Path("increment_dnn/single_cpu_train").resolve()


def test_what_paddlerec_saves_is_in_its_places() -> None:
    values = config(
        epochs=3,
        save_checkpoint_interval=2,
        save_step_interval=2,
        save_step_path="steps",
        save_inference_interval=3,
        save_inference_path="inference",
        save_inference_feed_varnames=["1", "dense_var"],
        save_inference_fetch_varnames=["sigmoid_0.tmp_0"],
        runner_result_dump_path="results/dump",
    )
    (outcome,) = run(values)
    # Epochs that the interval names, and always the last one.
    assert {path.name: checkpoint_manifest.read(path).step for path in epochs_in("increment_dnn")} == {"1": 12, "2": 18}
    steps = {path.name: checkpoint_manifest.read(path).step for path in Path("steps").iterdir()}
    assert steps == {f"epoch_{e}_batch_{b}": 6 * e + b for e in range(3) for b in (2, 4)}
    assert [path.name for path in epochs_in("inference")] == ["2"]
    assert json.loads((Path("inference/2") / MANIFEST).read_text())["version"] == 1
    for epoch, expected in enumerate([[3, 6], [9, 12], [15, 18]]):
        dumped = json.loads(Path(f"results/dump_epoch_{epoch}").read_text())
        assert [line["step"] for line in dumped] == expected
    assert len(outcome["saved"]) == 2 + 6 + 1 + 3


def epochs_in(directory: str) -> list[Path]:
    return sorted(path for path in Path(directory).iterdir() if path.name.isdecimal())


def test_phases_are_read_in_their_order_in_every_epoch() -> None:
    values = config(phases=["phase2", "phase1", "phase2"], print_interval=12)
    path = "{workspace}/data/sample_data/test"
    values["dataset"].append(values["dataset"][0] | {"name": "other", "data_path": path})
    values["phase"].append({"name": "phase2", "model": "{workspace}/model.py", "dataset_name": "other"})
    values["phase"][1]["thread_num"] = 2
    (outcome,) = run(values)
    job = json.loads((Path(outcome["checkpoint"]).parents[1] / "job.json").read_text())
    assert [Path(path).name for path in job["data"]["train"]] == ["test", "train", "test"]
    assert checkpoint_manifest.read(Path("increment_dnn/0")).step == (60 + 120 + 60) / 20
    assert job["threads"] == 2  # the largest of all phases


def test_a_part_is_frozen_when_a_pretrained_model_is_finetuned() -> None:
    (first,) = run(config())
    tuned = config(init_pretraining_model_path="increment_dnn/1", finetuning_aspect_varnames=["SparseFeatFactors"])
    tuned["runner"][0]["save_checkpoint_path"] = "tuned"
    (second,) = run(tuned)
    before, after = (
        open_checkpoint_source(Path(one["checkpoint"]), threads=1).learner.sparse.tables["embedding"]
        for one in (first, second)
    )
    keys = before.keys()
    assert after.keys().tobytes() == keys.tobytes()
    assert after.rows(keys).tobytes() == before.rows(keys).tobytes()
    assert checkpoint_manifest.read(Path("tuned/0")).step == 12 + 6


def test_a_variable_to_feed_that_rows_do_not_have_is_refused(tmp_path: Path) -> None:
    values = config(save_inference_interval=1, save_inference_path="i", save_inference_feed_varnames=["C3", "C33"])
    Path("config.yaml").write_text(yaml.safe_dump(values))
    result = CliRunner().invoke(app, ["run", "-m", "config.yaml"])
    assert result.exit_code == 3
    told = r"runner\[0\]\.save_inference_feed_varnames, line \d+: no feature 'C33' to feed; did you mean C3\?"
    assert re.search(told, result.stderr)
    assert "'C3' to feed" not in result.stderr


def test_a_run_may_begin_with_its_own_past() -> None:
    run(config())
    first = checkpoint_manifest.read(Path("increment_dnn/1"))
    (outcome,) = run(config(init_model_path="increment_dnn/1"))
    again = checkpoint_manifest.read(Path("increment_dnn/1"))
    assert again.step == first.step + 12  # a warm start goes on counting
    assert Path(outcome["checkpoint"]).is_dir()


def test_infer_tests_what_was_trained_before_it_if_it_names_nothing() -> None:
    values = config()
    values["runner"].append({"name": "test", "class": "infer", "device": "cpu"})
    values["mode"] = ["single_cpu_train", "test"]
    _, tested = run(values)
    (figures,) = tested["figures"].values()
    assert 0 < figures["auc"] <= 1


def test_a_path_without_checkpoints_is_told_with_what_is_there() -> None:
    values = config()
    values["runner"][0] |= {"class": "infer", "init_model_path": "increment_dnn/7"}
    Path("increment_dnn/other").mkdir(parents=True)
    Path("config.yaml").write_text(yaml.safe_dump(values))
    result = CliRunner().invoke(app, ["run", "-m", "config.yaml"])
    assert result.exit_code == 6
    assert "increment_dnn/7: no checkpoint of Clickline there" in result.stderr
    assert "has other" in result.stderr


def test_a_runner_begins_only_when_the_one_before_has_succeeded() -> None:
    begun: list[str] = []

    def fails(job: Any, **_: Any) -> Any:
        begun.append(job.name)
        raise PeerError("a server is gone")

    values = config()
    values["runner"].append(values["runner"][0] | {"name": "second"})
    values["mode"] = ["single_cpu_train", "second"]
    Path("config.yaml").write_text(yaml.safe_dump(values))
    sequence = RunnerSequence(read_config(Path("config.yaml")), train=fails, watcher=LogOnly())
    with pytest.raises(PeerError):
        sequence.run()
    assert begun == ["single_cpu_train"]


def test_all_runners_are_checked_before_the_first_begins() -> None:
    values = config()
    values["dataset"].append(values["dataset"][0] | {"name": "gone", "data_path": "nowhere"})
    values["phase"].append(values["phase"][0] | {"name": "late", "dataset_name": "gone"})
    values["runner"].append(values["runner"][0] | {"name": "second", "phases": ["late"]})
    values["mode"] = ["single_cpu_train", "second"]
    Path("config.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(DataError, match="nowhere"):
        RunnerSequence(read_config(Path("config.yaml")), train=train_job, watcher=LogOnly())
    assert not Path("increment_dnn").exists()


def test_a_runner_for_a_cluster_is_refused_with_what_runs_here(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["run", "-m", str(copied("cluster_config", tmp_path))])
    assert result.exit_code == 3
    assert re.search(r"runner\[0\]\.class, line \d+: .*local_cluster_train runs as many processes here", result.stderr)


def test_train_says_how_a_file_of_paddlerecs_is_run(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["train", str(copied("single_config", tmp_path))])
    assert result.exit_code == 3
    assert "`clickline run -m` runs it, `clickline migrate` makes a job of it" in result.stderr


def test_a_file_of_the_flat_generation_runs(tmp_path: Path) -> None:
    file = write_workspace(tmp_path, "fm")
    result = CliRunner().invoke(app, ["run", "-m", str(file), "--json"])
    assert result.exit_code == 0, result.output
    (outcome,) = json.loads(result.stdout)
    assert outcome["saved"] == ["output_model_fm/0", "output_model_fm/1"]
    assert outcome["figures"]["test"]["auc"] > 0
    # As tools/infer.py: the epochs from infer_start_epoch to before infer_end_epoch.
    more = ["runner.infer_start_epoch=1", "runner.runner_result_dump_path=figures"]
    tested = CliRunner().invoke(app, ["run", "--infer", "-m", str(file), "-o", *more])
    assert tested.exit_code == 0, tested.output
    assert re.search(r"^epoch: 1 done, auc: 0\.\d{6}, logloss: \S+, epoch time: \d+\.\d\d s$", tested.stderr, re.M)
    assert "epoch: 0 done" not in tested.stderr
    figures = json.loads(Path("figures").read_text())
    assert figures["1"]["auc"] == pytest.approx(outcome["figures"]["test"]["auc"])


def test_a_file_with_runners_is_not_tested_by_an_option() -> None:
    Path("config.yaml").write_text(yaml.safe_dump(config()))
    result = CliRunner().invoke(app, ["run", "--infer", "-m", "config.yaml"])
    assert result.exit_code == 3
    assert "name runners of class infer in `mode`" in result.stderr


@pytest.mark.heavy
def test_a_local_cluster_runs_with_servers_and_workers() -> None:
    values = config(
        **{"class": "local_cluster_train", "server_num": 1, "worker_num": 1, "epochs": 1, "print_interval": 2}
    )
    Path("config.yaml").write_text(yaml.safe_dump(values))
    result = CliRunner().invoke(app, ["run", "-m", "config.yaml"])
    assert result.exit_code == 0, result.output
    assert re.search(r"- INFO: \t\[Train\] epoch: 0, batch: \d+", result.stderr)
    assert re.search(r"^epoch 0 done, use time: \S+, global metrics: LOSS=", result.stderr, re.MULTILINE)
    assert (Path("increment_dnn") / "0").is_dir()
