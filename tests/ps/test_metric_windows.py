"""Figures over all trainers are those of one process that had made all the predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clickline.config.metric_settings import MetricSettings
from clickline.ps.coordinator.state.metric_windows import EvaluationScores, MetricWindow
from clickline.train.evaluation.metric_set import MetricSet
from clickline.train.evaluation.metrics import measure


def report(draw: np.random.Generator, steps: list[int], size: int = 20) -> dict[str, Any]:
    rows = size * len(steps)
    return {
        "logits": draw.normal(size=rows).astype(np.float32),
        "labels": (draw.random(rows) < 0.3).astype(np.float32),
        "losses": draw.random(len(steps)),
        "sizes": np.full(len(steps), size),
        "steps": np.array(steps),
    }


def test_a_line_is_exact_over_the_rows_of_all_trainers() -> None:
    draw = np.random.default_rng(1)
    reports = [report(draw, [0, 1, 2]), report(draw, [0, 1])]
    window = MetricWindow(every=5, lockstep=False, metrics=MetricSettings(), labels=2)
    for one in reports:
        assert window.due(reached=0) is None
        window.add(one)
    assert window.due(reached=5) == 5
    figures = window.line(5)
    whole = measure(*(np.concatenate([one[name] for one in reports]) for name in ("logits", "labels")))
    assert figures["auc"] == pytest.approx(whole.auc, abs=1e-12)
    assert figures["logloss"] == pytest.approx(whole.logloss, abs=1e-12)
    assert figures["loss"] == pytest.approx(np.mean([*reports[0]["losses"], *reports[1]["losses"]]))
    assert window.due(reached=5) is None


def test_in_lockstep_a_line_holds_just_its_steps_and_a_steps_loss_is_over_all_its_rows() -> None:
    draw = np.random.default_rng(2)
    first, second = report(draw, [0, 1, 2, 3]), report(draw, [0, 1, 2, 3], size=60)
    window = MetricWindow(every=2, lockstep=True, metrics=MetricSettings(), labels=2)
    window.add(first)
    assert window.due(reached=-1) is None
    window.add(second)
    assert window.due(reached=3) == 2
    wanted = np.mean([(first["losses"][s] * 20 + second["losses"][s] * 60) / 80 for s in (0, 1)])
    line = window.line(2)
    assert line["loss"] == pytest.approx(wanted)
    assert line["rows"] == 2 * 80
    assert window.due(reached=3) == 4
    assert window.line(4)["rows"] == 2 * 80


def test_a_piece_that_is_predicted_twice_counts_once() -> None:
    draw = np.random.default_rng(3)
    logits, labels = draw.normal(size=(90, 1)).astype(np.float32), (draw.random((90, 1)) < 0.4).astype(np.float32)
    scores = EvaluationScores()
    for piece in (2, 0, 1, 2):
        part = slice(30 * piece, 30 * piece + 30)
        scores.add(piece, {"logits": logits[part], "labels": labels[part]})
    assert scores.rows == 90
    assert scores.figures(["label"], MetricSet())["auc"] == measure(logits[:, 0], labels[:, 0]).auc
    assert EvaluationScores().figures(["label"], MetricSet()) == {"rows": 0}
