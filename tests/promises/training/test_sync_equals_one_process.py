"""Synchronous trainers of batch b learn what one process of the union of their batches learns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clickline
from clickline.config import Job
from support.clusters import settings_for

pytestmark = pytest.mark.heavy
BATCH = 50
TOLERANCE = 1e-4


def losses(directory: Path) -> list[tuple[int, float]]:
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["logloss"]) for line in lines if line["kind"] == "train"]


def test_two_trainers_of_batch_b_are_one_process_of_batch_2b(criteo, tmp_path, launch):
    rows = Path(criteo["train"]).read_text().splitlines(keepends=True)[:4000]
    halves, mixed = (rows[:2000], rows[2000:]), []
    for first in range(0, 2000, BATCH):
        mixed += halves[0][first : first + BATCH] + halves[1][first : first + BATCH]
    paths = {name: tmp_path / f"{name}.tsv" for name in ("a", "b", "mixed")}
    for path, lines in zip(paths.values(), (*halves, mixed), strict=True):
        path.write_text("".join(lines))
    settings = settings_for(
        criteo,
        tmp_path,
        "two",
        strategy="sync",
        data={"train": [str(paths["a"]), str(paths["b"])], "shuffle_rows": 0},
        train={"batch_size": BATCH, "log_every": 1, "epochs": 2},
        cluster={"piece_bytes": 1 << 30},
    )
    two = launch(settings).ends()
    settings |= {"name": "one", "strategy": "single", "cluster": {}}
    settings["data"]["train"] = [str(paths["mixed"])]
    settings["train"]["batch_size"] = 2 * BATCH
    one = clickline.train_job(Job.model_validate(settings))

    here, there = losses(tmp_path / "runs" / "two"), losses(tmp_path / "runs" / "one")
    assert [step for step, _ in here] == [step for step, _ in there] == list(range(1, 81))
    worst = max(abs(mine - theirs) / theirs for (_, mine), (_, theirs) in zip(here, there, strict=True))
    print(f"\nlargest relative difference of a loss: {worst:.2g}")
    assert worst < TOLERANCE
    assert two["rows"] == one.rows == 8000
    assert two["test"]["auc"] == pytest.approx(one.test["auc"], abs=TOLERANCE)
