"""A job is told the same whether its model was built to check it or its signature was enough."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clickline.config.loading.reader import read_draft
from clickline.errors import ClicklineError
from clickline.models import model_class, model_names, model_requests
from clickline.train import preflight_subject
from clickline.train.preflight import check_draft

SEEN = {"name": "seen", "pooling": "sequence", "keys_of": "item"}
FEATURES: dict[str, dict[str, Any]] = {
    "one slot": {"slots": ["item"]},
    "slots and numbers": {"slots": ["item", "user"], "dense": ["age"]},
    "a history": {"slots": ["item", "user", SEEN]},
    "only a history": {"slots": [{**SEEN, "keys_of": None}]},
    "no slots": {"dense": ["age"]},
    "nothing": {},
    "a slot twice": {"slots": ["item", "item"]},
    "several labels": {"slots": ["item", "user"], "labels": ["click", "buy"]},
}
LINEAR = {"linear": {"optimizer": {"learning_rate": 0.5}}, "embedding": {"optimizer": {"learning_rate": 0.5}}}
MODELS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "shared keys": {"embedding_dim": 6, "hidden": [24], "dropout": 0.1},
    "no hidden layers": {"hidden": []},
    "unknown parameters": {"params": {"cros_layers": 2, "hidden": [3]}},
    "names of slots": {"params": {"wide_slots": ["itm"], "first_gate": ["user"], "histories": {"seen": "item"}}},
    "wrong types": {
        "params": {"cross_layers": "x", "cin_layers": [8, "x"], "bilinear": "some", "tower": 3, "heads": 0}
    },
    "right values": {"params": {"cross_layers": 2, "rank": 1, "experts": 2, "heads": 3, "cin_layers": [4]}},
}


def told(file: Path) -> tuple[Any, ...]:
    """Everything that is said about a job: its problems, or its notices."""
    try:
        checked = check_draft(read_draft(str(file)), look_for=(), training=False)
    except ClicklineError as error:
        return type(error), str(error), error.errors
    return "valid", checked.notices


def build_every_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were no signatures: classes are asked, and models built."""
    monkeypatch.setattr(model_requests, "SIGNATURES", {name: model_class(name) for name in model_names()})
    monkeypatch.setattr(preflight_subject, "known_tables", lambda *_: None)


@pytest.mark.parametrize("name", model_names())
def test_problems_and_notices_are_those_of_the_built_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = []
    for features in FEATURES.values():
        for model in MODELS.values():
            job = {"data": {"format": "csv"}, "features": features, "model": {"name": name, **model}, "tables": LINEAR}
            jobs.append(tmp_path / f"{len(jobs)}.yaml")
            jobs[-1].write_text(json.dumps(job))
    without = [told(job) for job in jobs]
    build_every_model(monkeypatch)
    assert [told(job) for job in jobs] == without
    assert {"valid"} < {str(one[0]) for one in without}


def test_a_model_that_only_building_refuses_is_refused(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    features = {"slots": ["item"], "labels": ["click"]}
    job.write_text(json.dumps({"data": {"format": "csv"}, "features": features, "model": {"name": "fibinet"}}))
    assert "fibinet crosses pairs of slots" in told(job)[1]
