"""A model of numbers is published with its loss, predicts the numbers themselves, and is served so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import clickline
from clickline.cli.pages.up_page import show
from clickline.config import Job
from clickline.data.schema import Schema
from clickline.errors import VersionError
from clickline.launch.stack.served_evaluation import ServedMetrics
from clickline.launch.stack.stack_report import SamplePrediction, StackReport
from clickline.publish.parity import Parity, check_again, judge
from clickline.publish.publisher import Settings, publish
from clickline.serve.predictor.model_version import ModelVersion, VersionOptions
from clickline.versions import donefile
from clickline.versions.chain import opened
from clickline.versions.golden_sample import TOLERANCE, Sample
from clickline.versions.maintenance import list_versions
from clickline.versions.store import Store, open_store
from support.data.rated_items import squared_settings, write_rated_items
from support.processes import write_job
from support.suites.suite_processes import run_beside


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_rated_items(tmp_path_factory.mktemp("rated"))


@pytest.fixture(scope="module")
def result(paths: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> clickline.Result:
    return clickline.train_job(Job.model_validate(squared_settings(paths, tmp_path_factory.mktemp("run"))))


@pytest.fixture(scope="module")
def store(result: clickline.Result, tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = open_store(tmp_path_factory.mktemp("store"))
    publish(result.directory, store, Settings())
    publish(result.directory, store, Settings(kind="base", dtype="u8", max_rmse_rise=0.1))
    return store


def test_the_manifest_says_what_is_predicted(store: Store, result: clickline.Result) -> None:
    with opened(store, 1) as chain:
        manifest, sample = chain.manifest, chain.sample()
    schema = Schema.from_dict(manifest.data_schema)
    assert (schema.loss, len(schema.label_means)) == ("squared", 1)
    assert manifest.outputs["probability"]["loss"] == "squared"
    assert manifest.training["rmse"] == manifest.parity["rmse"] == pytest.approx(result.test["rmse"], rel=1e-6)
    assert (manifest.training["auc"], manifest.training["rmse_on"]) == (None, "test")
    assert manifest.parity["max_difference"] <= manifest.parity["tolerance"]
    assert 25 < sample.probability.min() < sample.probability.max() < 50
    assert list_versions(store)[0]["training"]["rmse"] == manifest.training["rmse"]


def test_files_alone_predict_the_values(store: Store) -> None:
    assert check_again(store, 1) < 1e-3
    for number in (1, 2):
        version = ModelVersion.from_files(store, number, done=donefile.read(store), options=VersionOptions(model="m"))
        with opened(store, number) as chain:
            sample = chain.sample()
        assert np.abs(version.predict(sample.batch) - sample.probability).max() < 0.5
        assert version.schema.loss == "squared"


def test_shorter_rows_are_measured_by_the_rmse(store: Store, result: clickline.Result) -> None:
    with opened(store, 2) as chain:
        parity = chain.manifest.parity
    assert (parity["auc"], parity["published_auc"]) == (None, None)
    assert parity["published_rmse"] == pytest.approx(parity["rmse"], rel=0.1)
    assert parity["published_rmse"] != parity["rmse"]
    worse = Parity(10, 0.5, None, None, 10, rmse=1.0, published_rmse=1.01)
    judge(worse, dtype="fp16", max_auc_drop=0.0, max_rmse_rise=0.02)
    with pytest.raises(
        VersionError, match=r"the RMSE rises from 1\.0+ to 1\.010000 on 10 rows; a rise by 0\.001 of it"
    ):
        judge(worse, dtype="fp16", max_auc_drop=0.0)


def test_the_tolerance_grows_with_the_values_and_not_below_that_of_probabilities(store: Store) -> None:
    with opened(store, 1) as chain:
        batch = chain.sample().batch
    for largest, expected in ((0.5, TOLERANCE), (1.0, TOLERANCE), (-300.0, 300 * TOLERANCE), (np.inf, TOLERANCE)):
        assert Sample(batch, np.array([[0.1], [largest]], np.float32)).tolerance == pytest.approx(expected)


@pytest.mark.heavy
def test_up_measures_the_rmse_through_the_server_and_shows_it(
    paths: dict[str, str], result: clickline.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = squared_settings(paths, tmp_path)
    settings |= {"strategy": "single", "name": "numbers"}
    job = write_job(tmp_path / "job.yaml", settings)
    done = run_beside(tmp_path, "up", str(job), "--once", "--json", "--workers", "1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["loss"] == "squared"
    assert found["served"]["rmse"] == pytest.approx(found["trained_rmse"], abs=1e-4)
    assert found["trained_rmse"] == pytest.approx(result.test["rmse"], rel=1e-4)
    assert (found["served"]["auc"], found["trained_auc"], found["served"]["rows"]) == (None, None, 600)
    assert all(25 < sample["probability"] < 50 for sample in found["samples"])
    served, samples = ServedMetrics(**found.pop("served")), found.pop("samples")
    show(StackReport(**found, served=served, samples=[SamplePrediction(**one) for one in samples]))
    page = capsys.readouterr().out
    assert f"test RMSE through the server  {served.rmse:.4f}" in page
    assert f"test RMSE by the trainer      {found['trained_rmse']:.4f}" in page
    assert "AUC" not in page
