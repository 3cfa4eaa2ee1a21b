"""Labels that are numbers train under every strategy, from the same start, and come to the same kind of figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clickline
from clickline.config import Job
from support.data.rated_items import squared_settings, write_rated_items
from support.processes import run, write_job

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_rated_items(tmp_path_factory.mktemp("rated"))


@pytest.fixture(scope="module")
def single(paths: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[list[float], clickline.Result]:
    directory = tmp_path_factory.mktemp("single")
    result = clickline.train_job(Job.model_validate(squared_settings(paths, directory)))
    return errors_of(directory), result


def errors_of(directory: Path) -> list[float]:
    lines = [json.loads(line) for line in (directory / "runs" / "squared" / "metrics.jsonl").read_text().splitlines()]
    return [line["rmse"] for line in lines if line["kind"] == "train"]


@pytest.mark.parametrize(
    ("strategy", "servers", "trainers"),
    [("sync", 2, 1), ("async", 1, 1), ("half_async", 1, 1), ("geo", 1, 1), ("collective", 0, 2)],
)
def test_the_error_falls_from_the_same_start(
    strategy: str, servers: int, trainers: int, paths: dict[str, str], single, tmp_path: Path
) -> None:
    settings = squared_settings(paths, tmp_path)
    settings |= {"strategy": strategy, "cluster": {"pservers": servers, "trainers": trainers, "piece_bytes": 1 << 30}}
    if strategy == "collective":
        settings["cluster"] = {"trainers": 2, "piece_bytes": 4000}
        settings["train"] = {**settings["train"], "batch_size": 25}  # type: ignore[dict-item]
    done = run("train", write_job(tmp_path / "job.yaml", settings), "--json")
    assert done.returncode == 0, done.stderr
    result, errors = json.loads(done.stdout), errors_of(tmp_path)
    assert errors[0] < 4  # the labels' mean is 37.5
    assert errors[-1] < 0.9 * errors[0]
    assert result["test"]["rmse"] < 0.9 * errors[0]
    assert "auc" not in result["test"]
    if strategy == "sync":
        # One trainer takes the steps that one process takes; servers add the same numbers in another order.
        assert errors == pytest.approx(single[0], rel=1e-4)
        assert result["test"]["rmse"] == pytest.approx(single[1].test["rmse"], rel=1e-4)
