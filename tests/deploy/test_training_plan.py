"""The plan of the training pod: hours of a window, paths by the hour, demo data divided among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clickline.config.loading.reader import checked_settings
from clickline.deploy.objects.suite_names import SuiteNames
from clickline.deploy.training_plan import TrainingPlan, training_plan
from clickline.deploy.training_window import demo_paths
from clickline.deploy.values import Values
from clickline.errors import JobError

NAMES = SuiteNames(suite="ctr", namespace="n")


def plan_of(beside: Path, **given: Any) -> TrainingPlan:
    return training_plan(checked_settings(given, Values, source="values"), NAMES, beside=beside)


def test_a_window_has_a_step_for_each_hour_with_its_own_paths(tmp_path: Path) -> None:
    data = {
        "source": "paths",
        "train": ["hdfs://n:9000/logs/%Y%m%d/%H/*"],
        "done": "hdfs://n:9000/logs/%Y%m%d/%H/donefile",
        "start": "20231231/23",
        "end": "20240101/01",
    }
    steps = list(plan_of(tmp_path, data=data).steps())
    assert [step.name for step in steps] == ["ctr-2023123123", "ctr-2024010100", "ctr-2024010101"]
    assert steps[1].train == ["hdfs://n:9000/logs/20240101/00/*"]
    assert steps[1].done == "hdfs://n:9000/logs/20240101/00/donefile"


def test_without_a_window_other_data_is_another_run(tmp_path: Path) -> None:
    (first,) = plan_of(tmp_path).steps()
    (again,) = plan_of(tmp_path).steps()
    (other,) = plan_of(tmp_path, data={"rows": 5000}).steps()
    assert first.name == again.name != other.name


def test_demo_data_is_divided_among_the_hours_without_a_loss(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, data={"rows": 1000, "start": "20240101/00", "end": "20240101/02"})
    parts = [demo_paths(plan, step, directory=tmp_path / "demo") for step in plan.steps()]
    lines = [Path(train[0]).read_bytes().splitlines() for train, _ in parts]
    whole = (tmp_path / "demo" / "criteo-1000.train.tsv").read_bytes().splitlines()
    assert sorted(line for part in lines for line in part) == sorted(whole)
    assert len({test[0] for _, test in parts}) == 1


def test_a_job_file_keeps_its_settings_and_gets_the_clusters(tmp_path: Path) -> None:
    text = "data: {format: criteo, train: /logs/a.tsv}\ntrain: {batch_size: 77}\ncluster: {pservers: 9}\n"
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    plan = plan_of(tmp_path, job="job.yaml", training={"pservers": 3})
    (step,) = plan.steps()
    job = plan.job_of(step, train=step.train, test=step.test)
    assert (job.train.batch_size, job.cluster.pservers, list(job.data.train)) == (77, 3, ["/logs/a.tsv"])
    assert plan.demo_rows == 0
    assert job.output == "/store/runs"


def test_a_wrong_model_is_told_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("train: {batch_sizes: 7}\n", encoding="utf-8")
    with pytest.raises(JobError, match="batch_size"):
        plan_of(tmp_path, job="job.yaml")
