"""A run keeps copies of the user's own files, and can be opened from anywhere when the files are gone."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from clickline.config import Job
from clickline.train.run_files.own_code import CODE, LIMIT, keep_own_code
from support.processes import ENVIRONMENT, start, write_job

MODEL = """
import torch
from clickline import Model


class Net(Model):
    def __init__(self, fields):
        super().__init__(fields)
        self.out = torch.nn.Linear(self.embed("vectors", dim=4).width, 1)

    def forward(self, inputs):
        return self.out(inputs["vectors"].flatten(1)).squeeze(1)
"""
READER = """
import json
from clickline import Reader


class Lines(Reader):
    def rows(self, stream, path):
        for line in stream:
            yield json.loads(line)
"""
METRIC = """
def brier(labels, predictions):
    return ((labels - predictions) ** 2).mean()
"""
CLUSTERS = {
    "single": {},
    "async": {"pservers": 1, "trainers": 1, "threads": 1},
    "collective": {"trainers": 2, "threads": 1},
}


def call(*arguments: str | Path, cwd: Path) -> str:
    """What a command prints; it must succeed, and has nothing to say of keys without effect."""
    process = start(*arguments, cwd=cwd, env={**ENVIRONMENT, "PYTHONPATH": ""})
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    assert "has no effect" not in err
    return out


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", CLUSTERS)
def test_a_run_is_evaluated_published_and_resumed_without_the_files_it_was_made_with(
    strategy: str, tmp_path: Path
) -> None:
    project, elsewhere, log = tmp_path / "project", tmp_path / "elsewhere", tmp_path / "log"
    (project / "mine").mkdir(parents=True)
    elsewhere.mkdir()
    for name, text in (("net.py", MODEL), ("mine/net.py", READER), ("brier.py", METRIC)):
        (project / name).write_text(text, encoding="utf-8")
    log.write_text("".join(json.dumps({"click": n % 2, "user": f"u{n % 7}"}) + "\n" for n in range(1000)))
    settings: dict[str, Any] = {
        "name": "own",
        "strategy": strategy,
        "data": {"format": "mine/net.py:Lines", "train": [str(log)], "test": [str(log)]},
        "features": {"labels": ["click"], "slots": ["user"]},
        "model": {"name": "net.py:Net"},
        "metrics": {"own": ["brier.py:brier"]},
        "train": {"epochs": 1, "batch_size": 50},
        "cluster": CLUSTERS[strategy],
    }
    call("train", write_job(project / "job.yaml", settings), cwd=project)
    shutil.rmtree(project / "mine")
    (project / "net.py").unlink()
    (project / "brier.py").unlink()
    run = project / "runs" / "own"
    figures = json.loads(call("evaluate", run, log, "--json", cwd=elsewhere))
    assert (figures["rows"], 0 < figures["brier"] < 1) == (1000, True)
    published = json.loads(call("publish", run, "--to", elsewhere / "versions", "--json", cwd=elsewhere))
    assert published["version"] == 1
    more = json.loads(call("train", run / "job.json", "--resume", "--set", "train.epochs=2", "--json", cwd=elsewhere))
    assert (more["rows"], Path(more["directory"])) == (2000, run)
    assert not (elsewhere / "runs").exists()


def test_only_the_named_files_are_copied_and_none_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL)
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "large.py").write_bytes(b"#" * (LIMIT + 1))
    job = Job.model_validate({"model": {"name": "net.py:Net"}, "data": {"format": "large.py:Lines"}})
    with caplog.at_level(logging.WARNING, logger="clickline"):
        keep_own_code(job, tmp_path / "run")
    (copy,) = (tmp_path / "run" / CODE).iterdir()
    assert (copy.name.endswith("-net.py"), copy.read_text()) == (True, MODEL)
    assert "large.py is larger than" in caplog.text
    (tmp_path / "net.py").write_text("changed")
    keep_own_code(job, tmp_path / "run")
    assert copy.read_text() == "changed"
    (tmp_path / "net.py").unlink()
    keep_own_code(job, tmp_path / "run")
    assert copy.read_text() == "changed"


def test_a_new_run_does_not_begin_with_the_copies_of_an_old_one(criteo: dict[str, str], tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "name": "own",
        "output": str(tmp_path / "runs"),
        "data": {"train": [criteo["train"]]},
        "model": {"name": "net.py:Net"},
        "train": {"max_steps": 1},
    }
    (tmp_path / "net.py").write_text(MODEL)
    file = write_job(tmp_path / "job.yaml", settings)
    call("train", file, cwd=tmp_path)
    (tmp_path / "net.py").unlink()
    process = start("train", file, "--fresh", cwd=tmp_path)
    _, err = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "no file 'net.py'" in err
