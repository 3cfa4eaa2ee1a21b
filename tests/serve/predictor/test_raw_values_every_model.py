"""Predictions from raw values are the trainer's own, for every model of the zoo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

import clickline
from clickline.config import Job
from clickline.data.synthetic import write_movielens
from clickline.publish.publisher import Settings, publish
from clickline.serve.predictor.predictor import Predictor
from clickline.serve.predictor.served_model import ServedModel
from clickline.train.session import train_job
from clickline.versions.store import open_store
from support.model_jobs import EVERY_MODEL, SMALL
from support.serving.predictor_worker import predictor_in_thread
from support.serving.raw_rows import Rows, ask, assert_close, columns_of, criteo_rows, csv_rows, trained_on

MOVIELENS = {"din": ["label"], "mmoe": ["label", "finish"]}
"""Models of histories and of several labels, and their labels."""
SLOTS = [f"C{number}" for number in range(1, 9)]
"""Pairs of them are what some models take their time for."""
SIZES = {"embedding_dim": 4, "hidden": [8], "dropout": 0.1}


def job_on_criteo(name: str, criteo: dict[str, str], output: Path) -> Job:
    params = {"finalmlp": {"heads": 2, "gate_hidden": [4], "first_gate": ["C1"], "second_gate": ["C2", "C3"]}}
    return Job.model_validate(
        {
            "seed": 5,
            "threads": 1,
            "output": str(output),
            "data": {"train": [criteo["train"]], "test": [criteo["test"]]},
            "features": {"slots": SLOTS},
            "model": {"name": name, **SIZES, "params": params.get(name, SMALL.get(name, {}))},
            "train": {"batch_size": 100, "max_steps": 8, "epochs": 1},
        }
    )


def job_on_movielens(name: str, directory: Path) -> Job:
    facts = write_movielens(directory / "log", rows=1200, seed=3, test_rows=200)
    changes = [
        f"output={directory / 'runs'}",
        f"features.labels=[{','.join(MOVIELENS[name])}]",
        *("train.epochs=1", "train.batch_size=100", "threads=1"),
        *("model.embedding_dim=4", "model.hidden=[8]", f"model.name={name}"),
        *(["model.params={}"] if name == "mmoe" else []),
    ]
    return clickline.read_job(facts["files"]["job"], overrides=changes).job


def asked_over_http(client: httpx.Client, rows: Rows, *, labels: list[str]) -> NDArray[np.float32]:
    answer = client.post("/predict", json={"instances": rows}, timeout=60)
    assert answer.status_code == 200, answer.text
    said = answer.json()["predictions"]
    if len(labels) == 1:
        return np.array(said, np.float32).reshape(-1, 1)
    return np.array([[one[label] for label in labels] for one in said], np.float32)


@pytest.mark.heavy
@pytest.mark.parametrize("name", EVERY_MODEL)
def test_equal_the_trainers(
    name: str, criteo: dict[str, str], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Asked in the same process, and over HTTP."""
    columns: list[str] = []
    if name in MOVIELENS:
        job = job_on_movielens(name, tmp_path)
        rows, text, columns = csv_rows(job.data.test[0], 100)
    else:
        job = job_on_criteo(name, criteo, tmp_path)
        rows, text = criteo_rows(criteo["test"], 100)
        rows = [{name: value for name, value in row.items() if name[0] == "I" or name in SLOTS} for row in rows]
    checkpoint = train_job(job).checkpoint
    store = open_store(tmp_path / "store")
    publish(checkpoint, store, Settings(sample_rows=32))
    wanted: Any = trained_on(checkpoint, text, columns=columns)
    served = ServedModel("ctr", store, interval=3600)
    assert served.refresh(), served.status()
    with Predictor({"ctr": served}) as predictor:
        assert set(predictor.choose().model_version.reader.columns) == columns_of(served.model_version().schema)
        answer = ask(predictor, rows)
        assert answer.labels == tuple(MOVIELENS.get(name, ["label"]))
        assert answer.probability.shape == (100, len(answer.labels))
        assert_close(answer.probability, wanted)
        for size in (1, 7):
            assert_close(ask(predictor, rows[:size]).probability, wanted[:size])
    with (
        predictor_in_thread(tmp_path, tmp_path / "store") as url,
        httpx.Client(base_url=url, trust_env=False) as client,
    ):
        for size in (1, 7, 100):
            found = asked_over_http(client, rows[:size], labels=MOVIELENS.get(name, ["label"]))
            assert_close(found, wanted[:size])
    assert float(np.ptp(wanted)) > 1e-3
    record_property("zoo over HTTP", {"models": 1, "answers": 3, "rows": 108})
