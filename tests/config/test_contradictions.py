"""Contradictions of a job are found all at once, with their lines, and none of them reaches training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import clickline
from clickline.cli.all_verbs import app
from clickline.errors import DataError, JobError, ModelError

SIX = """\
name: six
data:
  format: csv
  train: clicks.csv
  test: nothing.csv
features:
  labels: [label]
  slots:
    - user
    - movie
    - user
    - {name: seen, pooling: sequence, keys_of: movi, separator: "|"}
model:
  name: dcn_v2
  params: {cross_layer: 3}
train:
  early_stopping: {patience: 2}
strategy: single
cluster: {pservers: 2}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clicks.csv").write_text("label,user,movie,seen\n1,a,m,m|n\n0,b,n,\n", encoding="utf-8")
    return tmp_path


def found(*words: str) -> list[str]:
    """Key and line of every problem that a verb lists, and the verb's exit code first."""
    result = CliRunner().invoke(app, [*words, "--json"])
    problems = json.loads(result.stdout)["error"]["errors"] if result.exit_code else []
    return [str(result.exit_code), *(f"{problem['key']}, {problem['line']}" for problem in problems)]


LISTED = [
    "data.test[0], 5",
    "features.slots[2], 11",
    "features.slots[3].keys_of, 12",
    "model.params.cross_layer, 15",
    "train.early_stopping.patience, 17",
    "cluster.pservers, 19",
]


@pytest.mark.parametrize("verb", ["validate", "train", "up"])
def test_six_contradictions_are_listed_with_their_lines_and_nothing_is_written(folder: Path, verb: str) -> None:
    (folder / "job.yaml").write_text(SIX, encoding="utf-8")
    state = ["--state", "state"] if verb == "up" else []
    assert found(verb, "job.yaml", *state) == ["3", *LISTED]
    assert not (folder / "runs").exists()
    assert not list(folder.glob("state/*/checkpoints"))


def test_contradictions_are_listed_beside_mistakes_of_other_kinds(folder: Path) -> None:
    (folder / "job.yaml").write_text(SIX.replace("dcn_v2", "depfm"), encoding="utf-8")
    listed = [line for line in LISTED if not line.startswith("model.params")]
    listed[3:3] = ["model.name, 14"]
    assert found("validate", "job.yaml", "--set", "train.epochs=0") == ["3", *listed, "train.epochs, None"]


def test_what_follows_from_a_mistake_is_no_contradiction(folder: Path) -> None:
    text = "data: {train: clicks.csv}\nstrategy: sync\ncluster: {pserver: 2}\ntrain: {early_stopping: {patience: 1}}\n"
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    assert found("validate", "job.yaml", "--set", "data.valid=3") == ["3", "cluster.pserver, 3", "data.valid, None"]


GOOD = "data: {format: csv, train: clicks.csv}\nfeatures:\n  slots: [user, movie]\n"


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        (["strategy=single", "cluster.pservers=1"], "cluster.pservers", "strategy single trains in one process"),
        (["strategy=single", "cluster.trainers=2"], "cluster.trainers", "strategy single is one process"),
        (["strategy=collective", "cluster.pservers=1"], "cluster.pservers", "strategy collective trains in trainers"),
        (["strategy=sync"], "strategy", "sync needs parameter servers: set cluster.pservers to at least 1"),
        (["strategy=geo"], "strategy", "geo needs parameter servers"),
        (["train.early_stopping.patience=3"], "train.early_stopping.patience", "data.valid is empty"),
        (["features.slots[0].keys_of=movi"], "features.slots[0].keys_of", "not a slot of the job; did you mean movie?"),
        (["features.slots=[user,user]"], "features.slots[1]", "has 'user' more than once"),
        (["features.slots=[user,label]"], "features.slots[1]", "must not know the outcome"),
        (["features.labels=[label,movie]", "features.slots=[user]"], "features.labels", "predicts one label"),
        (["model.name=din"], "model.name", "din reads a history"),
        (["model.name=DeepFM"], "model.name", "did you mean deepfm?"),
        (["model.params.foo=1"], "model.params.foo", "unknown"),
        (["model.name=dcn_v2", "model.params.rank=-1"], "model.params.rank", "greater than or equal to 0"),
        (["model.name=gone.py:Mine"], "model.name", "no file 'gone.py'"),
        (["model.name=empty.py:Mine"], "model.name", "empty.py has no class 'Mine'"),
        (["data.format=gone.py:Mine"], "data.format", "no file 'gone.py'"),
        (["data.format=empty.py:Mine"], "data.format", "empty.py has no class 'Mine'"),
        (["data.train=none*.csv"], "data.train[0]", "no file matches 'none*.csv'"),
        (["data.valid=none.csv"], "data.valid[0]", "no such file"),
        (["data.test=[clicks.csv,none.csv]"], "data.test[1]", "no such file"),
        (["data.storage.secret=${env:NOBODY_SET_THIS}"], "data.storage.secret", "NOBODY_SET_THIS, which is not set"),
        (["features.slots[0]=usr"], "data.train", "no column 'usr' in the data; did you mean user?"),
        (["data.delimiter=;"], "data.train", 'is the delimiter a comma? Then set data.delimiter to ","'),
        (
            ["data.placement=node", "strategy=collective", "cluster.trainers=2"],
            "data.placement",
            "needs parameter servers",
        ),
        (["tables.evict_every=3", "cluster.pservers=1"], "tables.evict_every", "sweep at the end of each epoch"),
    ],
)
def test_each_contradiction_is_refused_before_training(
    folder: Path, changes: list[str], key: str, message: str
) -> None:
    (folder / "job.yaml").write_text(GOOD, encoding="utf-8")
    (folder / "empty.py").write_text("class Other: pass\n", encoding="utf-8")
    overrides = [word for change in changes for word in ("--set", change)]
    for verb in ("validate", "train"):
        result = CliRunner().invoke(app, [verb, "job.yaml", "--json", *overrides])
        error = json.loads(result.stdout)["error"]
        assert [problem["key"] for problem in error["errors"]] == [key]
        assert message in error["errors"][0]["message"]
        assert verb == "train" or error["exit_code"] == 3
    assert not (folder / "runs").exists()


def test_a_job_without_contradictions_has_none(folder: Path) -> None:
    (folder / "job.yaml").write_text(GOOD, encoding="utf-8")
    assert found("validate", "job.yaml") == ["0"]


def test_a_job_can_be_checked_where_its_files_are_not(folder: Path) -> None:
    text = GOOD.replace("clicks.csv", "elsewhere/*.csv").replace("csv,", "mine.py:Reader,", 1)
    (folder / "job.yaml").write_text(text + "model: {name: 'mine.py:Mine'}\n", encoding="utf-8")
    assert found("validate", "job.yaml")[0] == "3"
    assert found("validate", "job.yaml", "--without-files") == ["0"]


def test_the_error_has_the_kind_that_all_problems_have(folder: Path) -> None:
    def job(**changes: object) -> clickline.Job:
        data = {"format": "csv", "train": "clicks.csv"} | changes.pop("data", {})  # type: ignore[operator]
        return clickline.Job.model_validate({"data": data, "features": {"slots": ["user"]}, **changes})

    with pytest.raises(DataError, match=r"data\.test\[0\]: no such file"):
        clickline.train_job(job(data={"test": "none.csv"}))
    with pytest.raises(ModelError, match=r"model\.name: unknown model 'depfm'"):
        clickline.train_job(job(model={"name": "depfm"}))
    with pytest.raises(JobError, match="2 errors"):
        clickline.train_job(job(data={"test": "none.csv"}, model={"name": "depfm"}))
    assert not (folder / "runs").exists()
