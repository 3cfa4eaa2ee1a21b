"""What is shown of an epoch under way: its share, the time that is left, AUC; and epochs count from 1."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import clickline
from clickline.config import Job
from clickline.progress import LogOnly
from clickline.train.checkpoints import checkpoint_files
from clickline.train.evaluation.metrics import auc
from clickline.train.monitoring.epoch_progress import EpochProgress, duration


class Watch(LogOnly):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shown: list[tuple[float | None, dict[str, Any]]] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def advance(self, *, share: float | None, facts: dict[str, Any]) -> None:
        self.shown.append((share, facts))


def test_the_time_left_goes_by_what_was_done_since_the_epoch_began():
    now = [100.0]
    progress = EpochProgress(clock=lambda: now[0])
    assert progress.text(None) == ""
    assert progress.text(0.2) == "20 % of the epoch"
    now[0] += 30
    assert progress.text(0.5) == "50 % of the epoch, 50 s left"
    progress.begin()
    assert progress.text(0.5) == "50 % of the epoch"


@pytest.mark.parametrize(("seconds", "text"), [(7.6, "8 s"), (130, "2 min 10 s"), (3900, "1 h 5 min")])
def test_durations_are_short(seconds, text):
    assert duration(seconds) == text


def test_the_auc_is_of_the_last_rows_and_computed_once_a_second():
    now, draw = [5.0], np.random.default_rng(1)
    progress = EpochProgress(clock=lambda: now[0])
    logits = [draw.normal(size=15_000) for _ in range(4)]
    labels = [(draw.random(15_000) < 0.5) * 1.0 for _ in range(4)]
    assert progress.recent_figures([], []) == {}
    first = progress.recent_figures(logits[:3], labels[:3])
    assert first == {"auc": auc(np.concatenate(logits[1:3]), np.concatenate(labels[1:3]))}
    now[0] += 0.5
    assert progress.recent_figures(logits, labels) == first
    now[0] += 0.5
    expected = auc(np.concatenate(logits[2:]), np.concatenate(labels[2:]))
    assert progress.recent_figures(logits, labels) == {"auc": expected}


def test_a_run_shows_auc_and_share_and_counts_epochs_from_one(small_job, criteo):
    settings = small_job.model_dump()
    settings["data"]["valid"] = [criteo["test"]]
    settings["train"] |= {"epochs": 2, "log_every": 9}
    settings["checkpoint"]["every_steps"] = 30
    settings["checkpoint"]["keep"] = 10
    watch = Watch()
    result = clickline.train_job(Job.model_validate(settings), watcher=watch)
    trained = [line for line in watch.lines if line.startswith("epoch ")]
    assert {line.split()[1] for line in trained} == {"1", "2"}
    assert all("% of the epoch" in line for line in trained)
    assert any(line.endswith(" s left") for line in trained)
    shown = [(share, facts) for share, facts in watch.shown if "auc" in facts]
    assert shown
    assert all(0 < share <= 1 and 0 <= float(facts["auc"]) <= 1 for share, facts in shown)
    lines = [json.loads(line) for line in (result.directory / "metrics.jsonl").read_text().splitlines()]
    assert {line["epoch"] for line in lines if line["kind"] == "train"} == {1, 2}
    assert [line["epoch"] for line in lines if line["kind"] != "train"] == [1, 2, 2]
    assert json.loads((result.directory / "status.json").read_text())["epoch"] == 2
    found = {one.step: one.epoch for one in checkpoint_files.find(result.directory / "checkpoints")}
    assert found == {30: 1, 45: 1, 60: 2, 90: 2}
