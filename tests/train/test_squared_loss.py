"""Labels that are numbers: one process trains on them, starts from their mean, and measures RMSE and MAE."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import clickline
from clickline.cli.all_verbs import app
from clickline.config import Job
from clickline.config.data import Data
from clickline.config.features import Features
from clickline.config.metric_settings import MetricSettings
from clickline.data.dataset import Dataset
from clickline.data.normalization import fit
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, JobError
from clickline.train.checkpoints.resume import check_same_job
from clickline.train.early_stopping import better
from clickline.train.evaluation.metric_set import MetricSet
from clickline.train.evaluation.value_metrics import measure_values
from clickline.train.forward import with_means
from clickline.train.learner import weighted_loss
from clickline.train.preflight import check_job
from support.data.rated_items import MEAN, squared_settings, write_rated_items


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_rated_items(tmp_path_factory.mktemp("rated"))


@pytest.fixture(scope="module")
def trained(paths: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, clickline.Result]:
    directory = tmp_path_factory.mktemp("trained")
    return directory, clickline.train_job(Job.model_validate(squared_settings(paths, directory)))


def lines_of(run: Path, kind: str = "train") -> list[dict[str, float]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: v for name, v in line.items() if name != "rows_per_second"} for line in lines if line["kind"] == kind
    ]


def test_a_run_starts_at_the_mean_and_its_error_falls(trained: tuple[Path, clickline.Result]) -> None:
    directory, result = trained
    lines = lines_of(directory / "runs" / "squared")
    assert set(lines[0]) == {"kind", "step", "epoch", "rows", "rmse", "mae", "calibration"}
    errors = [line["rmse"] for line in lines]
    assert errors[0] < 4  # from 0 it would be MEAN
    assert errors[-1] < 0.75 * errors[0]
    assert result.test["rmse"] < 0.75 * errors[0]
    assert result.test["mae"] < result.test["rmse"]
    assert result.test["calibration"] == pytest.approx(1, abs=0.02)
    assert "auc" not in result.test
    assert "logloss" not in result.test


def test_the_same_job_gives_the_same_figures(trained: tuple[Path, clickline.Result], paths, tmp_path: Path) -> None:
    again = clickline.train_job(Job.model_validate(squared_settings(paths, tmp_path)))
    assert again.test == trained[1].test
    assert lines_of(tmp_path / "runs" / "squared") == lines_of(trained[0] / "runs" / "squared")


def test_evaluating_gives_values_slices_and_bins(trained: tuple[Path, clickline.Result], paths, tmp_path: Path) -> None:
    out = tmp_path / "predictions.parquet"
    arguments = ["evaluate", str(trained[1].checkpoint), paths["test"], "--by", "item", "--out", str(out)]
    seen = CliRunner().invoke(app, [*arguments, "--json"])
    assert seen.exit_code == 0, seen.output
    found = json.loads(seen.stdout)
    assert found["rmse"] == trained[1].test["rmse"]
    assert set(found["slices"][0]) == {"value", "rows", "rmse", "mae", "calibration"}
    assert sum(each["rows"] for each in found["slices"]) == 600
    assert 30 < found["calibration_bins"][0]["predicted"] < 45
    table = pq.read_table(out)
    assert table.column_names == ["row", "label", "value"]
    error = table["value"].to_numpy() - table["label"].to_numpy()
    assert np.sqrt((error**2).mean()) == pytest.approx(found["rmse"], rel=1e-6)
    shown = CliRunner().invoke(app, arguments)
    assert all(name in shown.stdout for name in ("rmse", "mae"))


def test_status_runs_and_compare_show_the_errors(trained: tuple[Path, clickline.Result]) -> None:
    run = str(trained[0] / "runs" / "squared")
    assert f"test rmse {trained[1].test['rmse']:.5f}" in " ".join(
        CliRunner().invoke(app, ["status", run]).stdout.split()
    )
    listed = json.loads(CliRunner().invoke(app, ["runs", run, "--json"]).stdout)
    assert listed[0]["test"]["rmse"] == trained[1].test["rmse"]
    table = CliRunner().invoke(app, ["runs", run], env={"COLUMNS": "200"}).stdout
    assert f"{trained[1].test['mae']:.5f}" in table
    assert "test auc" not in table
    assert "test rmse" in CliRunner().invoke(app, ["compare", run, run], env={"COLUMNS": "200"}).stdout


def test_two_labels_and_weights_train_and_start_at_their_own_means(paths, tmp_path: Path) -> None:
    settings = squared_settings(paths, tmp_path, epochs=1)
    settings["features"] = {"slots": ["user", "item"], "labels": ["label", "second"], "weight": "weight"}
    settings["model"] = {"name": "mmoe", "embedding_dim": 4, "hidden": [16], "params": {"experts": 2, "tower": [4]}}
    result = clickline.train_job(Job.model_validate(settings))
    assert result.test["rmse"] < 4
    assert result.test["second.rmse"] < 4
    assert "second.calibration" not in result.test  # of a negative mean it says nothing
    assert lines_of(tmp_path / "runs" / "squared")[0]["loss"] < 32


def test_the_loss_is_the_squared_error_by_weight_summed_over_labels() -> None:
    wanted, given = torch.tensor([[1.0, -2.0], [3.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 3.0]])
    assert weighted_loss(given, wanted, None, loss="squared") == pytest.approx((1 + 4 + 9) / 2)
    assert weighted_loss(given, wanted, torch.tensor([3.0, 1.0]), loss="squared") == pytest.approx((3 * 5 + 9) / 4)
    assert weighted_loss(given[:, 0], wanted[:, 0], None, loss="squared") == pytest.approx(0.5)
    assert weighted_loss(given, wanted, torch.zeros(2), loss="squared") == 0


def test_figures_are_those_of_the_definition() -> None:
    figures = measure_values(np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0]), weights=np.array([1.0, 1.0, 2.0]))
    assert figures.to_dict() == {
        "rows": 3,
        "rmse": pytest.approx(1.5),
        "mae": pytest.approx(1.25),
        "calibration": pytest.approx(11 / 8),
    }
    assert measure_values(np.zeros(0), np.zeros(0)).to_dict() == {"rows": 0}
    assert measure_values(np.ones(2), -np.ones(2)).calibration is None


def test_means_of_other_labels_are_not_spread_over_a_models_output() -> None:
    assert with_means(torch.zeros(2), torch.tensor([3.0, 4.0])).tolist() == [3, 3]
    assert with_means(torch.zeros(2, 1), torch.tensor([3.0, 4.0])).tolist() == [[0], [0]]


def read(schema: Schema, path: Path, data: Data) -> Any:
    dataset = Dataset(data=data, schema=schema, paths=[str(path)], batch_size=10, seed=0, shuffle=False)
    return [batch for batch, _ in dataset.batches(epoch=0)]


def test_every_kind_of_source_takes_any_finite_number_as_label(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("label,user\n-2.5,a\n1e3,b\n0,c\nnan,d\n1e39,e\nfour,f\n")
    pq.write_table(
        pa.table({"label": [-2.5, 1e3, 0.0, float("nan"), 1e39, None], "user": list("abcdef")}),
        tmp_path / "log.parquet",
    )
    (tmp_path / "pipes.py").write_text(
        "from clickline import Reader\n\n\nclass Lines(Reader):\n    def rows(self, stream, path):\n"
        "        for line in list(stream)[1:]:\n"
        "            label, user = line.decode().split(',')\n            yield {'label': label, 'user': user}\n"
    )
    for form, file in (("csv", "log.csv"), ("parquet", "log.parquet"), (f"{tmp_path}/pipes.py:Lines", "log.csv")):
        data = Data(format=form, max_bad_rows=3)
        schema = Schema.of(data, Features(slots=["user"]), loss="squared")
        batches = read(replace(schema, label_means=(0.0,)), tmp_path / file, data)
        assert np.concatenate([batch.labels[:, 0] for batch in batches]).tolist() == [-2.5, 1e3, 0.0]


def test_means_are_fitted_by_weight_and_kept(paths: dict[str, str]) -> None:
    data = Data(format="csv", shuffle_rows=0)
    features = Features(slots=["user"], labels=["label", "second"], weight="weight")
    schema = fit(data, Schema.of(data, features, loss="squared"), [paths["train"]], rows=100)
    rows = np.loadtxt(paths["train"], delimiter=",", skiprows=1, usecols=(3, 4, 5), max_rows=100)
    assert schema.label_means == pytest.approx(np.average(rows[:, :2], axis=0, weights=rows[:, 2]), rel=1e-6)
    assert abs(schema.label_means[0] - MEAN) < 2
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    for damaged in ({"loss": "cubed"}, {"label_means": [1.0]}, {"label_means": [1.0, float("inf")]}):
        with pytest.raises(CheckpointError, match="saved schema is damaged"):
            Schema.from_dict(schema.to_dict() | damaged)
    clicks = Schema.of(data, features)
    assert not clicks.needs_fit
    assert not {"loss", "label_means"} & clicks.to_dict().keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"metrics": {"recall_at": [10]}},
            "metrics.recall_at: recall@10 is a share of clicks, but train.loss is squared",
        ),
        ({"train": {"early_stopping": {"metric": "auc"}}}, "no figure 'auc' with train.loss squared; .*rmse"),
        ({"train": {"loss": "log", "early_stopping": {"metric": "rmse"}}}, "no figure 'rmse' with train.loss log"),
        ({"metrics": {"own": ["statistics.py:rmse"]}}, "has the name of a figure that is measured anyway"),
    ],
)
def test_figures_of_the_other_loss_are_refused(paths, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    settings = squared_settings(paths, tmp_path)
    for section, values in change.items():
        settings[section] = {**settings.get(section, {}), **values}
    with pytest.raises(JobError, match=message):
        check_job(Job.model_validate(settings))


def test_early_stopping_goes_by_the_rmse_unless_told_otherwise() -> None:
    train = Job.model_validate({"train": {"loss": "squared"}}).train
    assert better(train, {"rmse": 0.8, "mae": 0.7}, best=-0.9)
    assert not better(train, {"rmse": 1.0, "mae": 0.1}, best=-0.9)
    other = Job.model_validate({"train": {"loss": "squared", "early_stopping": {"metric": "mae"}}}).train
    assert better(other, {"rmse": 9.0, "mae": 0.1}, best=-0.9)
    assert Job().train.stopping_metric == "auc"
    own = Job.model_validate({"train": {"early_stopping": {"metric": "rmse"}}}).train  # of a metric of the user's own
    assert better(own, {"rmse": 1.0}, best=0.9)


def test_metrics_of_ones_own_get_the_values() -> None:
    seen = []

    def shift(labels: Any, predictions: Any) -> float:
        seen.append(predictions.tolist())
        return float((predictions - labels).mean())

    metrics = MetricSet.of(MetricSettings(), loss="squared")
    own = type("Own", (), {"name": "shift", "__call__": lambda _self, labels, given, **_: shift(labels, given)})()
    figures = replace(metrics, own=(own,)).measure(np.array([5.0, -7.0]), np.array([4.0, -8.0]))
    assert (figures.to_dict()["shift"], seen) == (1.0, [[5.0, -7.0]])


def test_the_loss_must_stay_to_resume_and_a_job_from_before_there_was_one_goes_on(paths, tmp_path: Path) -> None:
    job = Job.model_validate(squared_settings(paths, tmp_path))
    then = job.model_dump(mode="json")
    check_same_job(job, then, where=tmp_path)
    then["train"]["loss"] = "log"
    with pytest.raises(CheckpointError, match=r"train\.loss differ"):
        check_same_job(job, then, where=tmp_path)
    del then["train"]["loss"]
    clicks = job.model_copy(update={"train": job.train.model_copy(update={"loss": "log"})})
    check_same_job(clicks, then, where=tmp_path)


def test_a_warm_start_keeps_the_mean_that_the_weights_were_learned_with(
    trained: tuple[Path, clickline.Result], paths, tmp_path: Path
) -> None:
    settings = squared_settings(paths, tmp_path, epochs=1, log_every=1)
    settings["data"] = {**settings["data"], "train": [paths["test"]]}  # type: ignore[dict-item]
    warm = clickline.train_job(Job.model_validate(settings), warm_start=trained[1].checkpoint)
    manifests = [json.loads((one / "manifest.json").read_text()) for one in (warm.checkpoint, trained[1].checkpoint)]
    assert manifests[0]["schema"]["label_means"] == manifests[1]["schema"]["label_means"]
    assert lines_of(tmp_path / "runs" / "squared")[0]["rmse"] < 2
