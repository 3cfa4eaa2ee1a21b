"""Keys that have no effect in a run are reported: by `validate`, and once at the start of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import clickline
from clickline.cli.all_verbs import app
from clickline.config.loading.key_paths import key_patterns
from clickline.config.validation.effects import EFFECTS
from clickline.errors import JobError
from clickline.progress import LogOnly


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    row = "\t".join(["1", *["2"] * 13, *["68fd1e64"] * 26])
    (tmp_path / "log.tsv").write_text(f"{row}\n{row.replace('1', '0', 1)}\n" * 20, encoding="utf-8")
    return tmp_path


def idle(*overrides: str, text: str = "data: {train: log.tsv}\n") -> list[str]:
    """Keys that `validate` reports to have no effect."""
    Path("job.yaml").write_text(text, encoding="utf-8")
    words = [word for override in overrides for word in ("--set", override)]
    result = CliRunner().invoke(app, ["validate", "job.yaml", "--json", *words])
    assert result.exit_code == 0, result.output
    return [notice["key"] for notice in json.loads(result.stdout)["without_effect"]]


def test_every_key_of_the_job_is_in_the_table_of_effects() -> None:
    """A new key needs an entry in clickline/config/validation/effects.py that says when it has an effect."""
    assert set(EFFECTS) == set(key_patterns())


@pytest.mark.parametrize(
    ("key", "value", "without", "with_effect"),
    [
        ("train.staleness", "1", ["cluster.pservers=1"], []),
        ("threads", "2", ["cluster.pservers=1"], []),
        ("threads", "2", ["cluster.trainers=2"], []),
        ("cluster.threads", "2", [], ["cluster.trainers=2"]),
        ("cluster.agree.merge", "2", ["cluster.pservers=1"], ["strategy=half_async", "cluster.pservers=1"]),
        (
            "cluster.agree.geo_steps",
            "2",
            ["strategy=sync", "cluster.pservers=1"],
            ["strategy=geo", "cluster.pservers=1"],
        ),
        ("cluster.heartbeat", "2", [], ["cluster.pservers=1"]),
        ("cluster.heartbeat", "2", ["cluster.trainers=2"], ["cluster.pservers=1"]),
        ("cluster.wire", "fp16", [], ["cluster.pservers=1"]),
        ("data.placement", "split", [], ["cluster.pservers=1"]),
        ("cluster.host", "127.0.0.1", ["cluster.pservers=1"], ["cluster.pservers=1", "cluster.transport=tcp"]),
        ("model.hidden", "[8]", ["model.name=lr"], ["model.name=dnn"]),
        ("model.embedding_dim", "8", ["model.name=lr"], ["model.name=fm"]),
        ("tables.embedding.init_scale", "0.1", ["model.name=lr"], []),
        ("tables.linear.init_scale", "0.1", ["model.name=dnn"], []),
        ("tables.linear.optimizer.beta1", "0.8", [], ["tables.linear.optimizer.name=adam"]),
        ("tables.embedding.restart_epochs", "false", ["train.epochs=1"], []),
        ("tables.eviction.show_weight", "2", [], ["tables.eviction.min_score=1"]),
        ("tables.evict_every", "5", [], ["tables.eviction.min_score=1"]),
        ("data.reader", "{a: 1}", [], None),
        ("data.header", "false", [], None),
        ("features.integers", "slots", ["features.slots=[C1]", "features.dense=[I1]"], []),
        ("features.fit_rows", "9", [], ["features.dense=[{name: I1, normalise: standard}]"]),
        ("features.group", "C1", [], ["data.test=log.tsv"]),
        ("train.early_stopping.min_delta", "0.1", [], ["data.valid=log.tsv"]),
        ("train.early_stopping.metric", "logloss", [], ["data.valid=log.tsv"]),
        ("features.fit_rows", "9", [], ["train.loss=squared"]),
        ("metrics.threshold", "0.2", ["train.loss=squared"], []),
        ("metrics.recall_at", "[5]", [], ["data.test=log.tsv"]),
    ],
)
def test_a_key_is_reported_where_it_has_no_effect_and_only_there(
    key: str, value: str, without: list[str], with_effect: list[str] | None
) -> None:
    assert idle(f"{key}={value}", *without) == [key]
    assert idle(*without) == []  # nobody set it
    if with_effect is not None:
        assert idle(f"{key}={value}", *with_effect) == []


def test_the_notice_names_line_and_reason() -> None:
    Path("job.yaml").write_text("data: {train: log.tsv}\nmodel:\n  name: lr\n  hidden: [256, 128]\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["validate", "job.yaml"])
    assert result.stderr == "model.hidden, line 4: has no effect: the model lr does not take it\n"


def test_mmoe_with_one_label_is_noted() -> None:
    assert idle("model.name=mmoe") == ["model.name"]


def test_a_run_tells_it_once_at_its_start(folder: Path) -> None:
    Path("job.yaml").write_text("data: {train: log.tsv}\nmodel: {name: lr, hidden: [9]}\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["train", "job.yaml", "--set", "train.epochs=1"])
    assert result.exit_code == 0, result.output
    assert result.stderr.count("model.hidden, line 2: has no effect") == 1
    resumed = CliRunner().invoke(app, ["train", "job.yaml", "--resume", "--warm-start", "runs/job"])
    assert resumed.stderr.count("--warm-start has no effect: --resume goes on") == 1


def test_a_job_made_in_python_tells_what_was_given_to_it(folder: Path) -> None:
    said: list[str] = []

    class Listener(LogOnly):
        def say(self, text: str) -> None:
            said.append(text)

    train = {"epochs": 1, "early_stopping": {"patience": 0}}
    job = {"data": {"train": "log.tsv"}, "model": {"name": "lr", "dropout": 0.5}, "train": train, "threads": 1}
    clickline.train_job(clickline.Job.model_validate(job), watcher=Listener())
    assert [line for line in said if "no effect" in line] == [
        "model.dropout: has no effect: the model lr does not take it"
    ]


def test_resume_and_fresh_exclude_each_other(folder: Path) -> None:
    Path("job.yaml").write_text("data: {train: log.tsv}\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["train", "job.yaml", "--resume", "--fresh"])
    assert (result.exit_code, "give one of them" in result.stderr) == (JobError.exit_code, True)
    assert not Path("runs").exists()
