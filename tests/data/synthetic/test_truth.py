"""What is said to be the best possible score is the score of the true probabilities on the labels that were written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickline.data.synthetic import criteo_rows, write_criteo
from clickline.data.synthetic.best_score import PARTS, Score
from clickline.train.evaluation.metrics import auc

ROWS, TEST = 20_000, 5000


def written_labels(path: Path, kind: Any) -> np.ndarray[Any, Any]:
    place = len("click:") if kind.name == "slots" else 0
    lines = path.read_bytes().splitlines()[1 if kind.name == "movielens" else 0 :]
    return np.array([line[place] - ord("0") for line in lines], dtype=np.float64)


def test_best_scores_are_those_of_the_true_probabilities(tmp_path: Path, kind: Any) -> None:
    facts = kind.write(tmp_path / "log", rows=ROWS, seed=3, test_rows=TEST, **kind.options)
    assert facts == json.loads((tmp_path / "log.json").read_text())
    log = kind.log(rows=ROWS, seed=3)
    chances = np.concatenate([log.block(number).chances for number in range(3)]) / PARTS
    for part, p in (("train", chances[:-TEST]), ("test", chances[-TEST:])):
        labels = written_labels(tmp_path / f"log.{part}{kind.suffix}", kind)
        assert facts[part]["rows"] == len(labels)
        assert facts[part]["ctr"] == pytest.approx(labels.mean())
        assert facts[part]["best_auc"] == pytest.approx(auc(p, labels), abs=1e-12)
        logloss = -np.where(labels > 0, np.log(p), np.log1p(-p)).mean()
        assert facts[part]["best_logloss"] == pytest.approx(logloss, abs=1e-12)
        assert 0.75 < facts[part]["best_auc"] < 0.9


def test_clicks_come_as_often_as_the_probabilities_say(kind: Any) -> None:
    log = kind.log(rows=ROWS, seed=5)
    blocks = [log.block(number) for number in range(3)]
    p = np.concatenate([block.chances for block in blocks]) / PARTS
    labels = np.concatenate([block.labels for block in blocks])
    for part in np.array_split(np.argsort(p), 10):  # from unlikely to likely
        deviation = np.sqrt((p[part] * (1 - p[part])).sum())
        assert abs(labels[part].sum() - p[part].sum()) < 4.5 * deviation


def test_rows_in_memory_are_the_written_ones(tmp_path: Path) -> None:
    rows = criteo_rows(9000, 3, ids=30_000)
    facts = write_criteo(tmp_path / "log", rows=9000, seed=3, ids=30_000)
    lines = (tmp_path / "log.train.tsv").read_text().splitlines()
    cells = [line.split("\t") for line in lines]
    assert [int(row[0]) for row in cells] == rows.labels.tolist()
    for column in range(13):
        wanted = np.where(rows.has_integer[column], rows.integers[column], 0)
        assert [int(row[1 + column] or 0) for row in cells] == wanted.tolist()
    for slot in range(26):
        assert [row[14 + slot] == "" for row in cells] == (rows.values[slot] < 0).tolist()
        names = {row[14 + slot] for row in cells} - {""}
        assert len(names) == len(set(rows.values[slot].tolist()) - {-1})
    assert facts["train"]["best_auc"] == pytest.approx(auc(rows.probability, rows.labels.astype(np.float64)))


def test_a_score_of_one_class_has_no_auc() -> None:
    score = Score()
    assert score.to_dict()["best_auc"] is None
    score.add(np.array([5, 9], dtype=np.int32), np.array([1, 1], dtype=np.uint8))
    assert (score.auc, score.to_dict()["ctr"]) == (None, 1.0)


def test_without_test_rows_there_is_no_test(tmp_path: Path, kind: Any) -> None:
    facts = kind.write(tmp_path / "log", rows=100, seed=3, **kind.options)
    assert facts["test"] is None
    assert facts["files"]["test"] == []
    assert not list(tmp_path.glob("*.test.*"))
