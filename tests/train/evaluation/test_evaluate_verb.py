"""`clickline evaluate`: calibration in bins, figures by slice, and predictions as a file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import clickline
from clickline.cli.all_verbs import app
from clickline.config import Job
from clickline.train.evaluation.metrics import auc

COLUMNS = ["label", "user", "movie", "price", "country"]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A checkpoint, and a log with malformed rows and a column that the model does not read."""
    directory = tmp_path_factory.mktemp("evaluated")
    log, draw = directory / "log.csv", np.random.default_rng(1)
    with log.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in range(1200):
            movie, user = int(draw.integers(0, 9)), row % 40
            label = int(draw.random() < (0.8 if movie % 3 == 0 else 0.2))
            price = "cheap" if row in (5, 700) else movie / 10
            writer.writerow([label, f"u{user}", movie, price, f"land {row % 30}" if row % 30 else ""])
    job = {
        "output": str(directory / "runs"),
        "threads": 1,
        "data": {"format": "csv", "train": [str(log)], "max_bad_rows": 5},
        "features": {"slots": ["user", "movie"], "dense": ["price"], "group": "user"},
        "model": {"name": "lr"},
        "train": {"epochs": 2, "batch_size": 100},
        "metrics": {"calibration_bins": 4},
    }
    return clickline.train_job(Job.model_validate(job)).checkpoint, log


def rows_of(log: Path) -> list[dict[str, str]]:
    with log.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["price"] != "cheap"]


def test_predictions_of_every_sound_row_are_in_the_file(evaluated, tmp_path):
    checkpoint, log = evaluated
    out = tmp_path / "predictions.parquet"
    result = CliRunner().invoke(app, ["evaluate", str(checkpoint), str(log), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert f"1,198 predictions in {out}" in result.stdout.replace("\n", "")
    table = pq.read_table(out)
    assert table.column_names == ["row", "label", "probability", "group"]
    rows = rows_of(log)
    assert table["row"].to_pylist() == list(range(1, 1199))
    assert table["label"].to_pylist() == [float(row["label"]) for row in rows]
    assert table["group"].to_pylist() == [row["user"] for row in rows]
    told = json.loads(CliRunner().invoke(app, ["evaluate", str(checkpoint), str(log), "--json"]).stdout)
    assert auc(table["probability"].to_numpy(), table["label"].to_numpy()) == pytest.approx(told["auc"])
    assert list(tmp_path.iterdir()) == [out]


def test_slices_are_measured_by_a_column_that_the_model_does_not_read(evaluated):
    checkpoint, log = evaluated
    run = CliRunner().invoke(app, ["evaluate", str(checkpoint), str(log), "--by", "country", "--json"])
    told = json.loads(run.stdout)
    rows = rows_of(log)
    counts = {value: sum(row["country"] == value for row in rows) for value in {row["country"] for row in rows}}
    assert {one["value"]: one["rows"] for one in told["slices"]} == counts
    assert "" in counts
    largest = [one["rows"] for one in told["slices"]]
    assert largest == sorted(largest, reverse=True)
    clicks = {value: sum(int(row["label"]) for row in rows if row["country"] == value) for value in counts}
    for one in told["slices"]:
        assert one["ctr"] == pytest.approx(clicks[one["value"]] / counts[one["value"]])
    assert sum(one["logloss"] * one["rows"] for one in told["slices"]) / 1198 == pytest.approx(told["logloss"])


def test_the_page_has_bins_and_a_bounded_number_of_slices(evaluated):
    checkpoint, log = evaluated
    run = CliRunner().invoke(app, ["evaluate", str(checkpoint), str(log), "--by", "country"])
    assert run.stdout.count("land ") + run.stdout.count("(none)") == 20
    assert "and 10 smaller slices, which --json has" in run.stdout
    bins = json.loads(CliRunner().invoke(app, ["evaluate", str(checkpoint), str(log), "--json"]).stdout)
    assert len(bins["calibration_bins"]) <= 4
    assert f"{bins['calibration_bins'][0]['predicted']:.5f}" in run.stdout


def test_a_column_that_is_not_there_and_a_file_that_cannot_be_written_are_told(evaluated, tmp_path):
    checkpoint, log = evaluated
    missing = CliRunner().invoke(app, ["evaluate", str(checkpoint), str(log), "--by", "contry"])
    assert (missing.exit_code, "did you mean country?" in missing.stderr) == (4, True)
    nowhere = tmp_path / "none" / "out.parquet"
    unwritten = CliRunner().invoke(app, ["evaluate", str(checkpoint), str(log), "--out", str(nowhere)])
    assert (unwritten.exit_code, "predictions cannot be written" in unwritten.stderr) == (4, True)
