"""A right job: what each way of writing a value means, and where each value is said to come from."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import clickline
from clickline.config import Job
from clickline.config.loading.reader import LoadedJob, read_job
from clickline.config.tables import Tables
from clickline.config.validation.contradictions import missing_for_training


def read(folder: Path, text: str, *overrides: str) -> LoadedJob:
    file = folder / "job.yaml"
    file.write_text(text, encoding="utf-8")
    return read_job(file, overrides=overrides)


def test_without_a_file_a_job_is_all_defaults() -> None:
    loaded = read_job(None)
    assert loaded.job == Job()
    assert loaded.path is None
    assert set(loaded.origins.values()) == {"default"}


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}\n", "---\n...\n", "\ufeffseed: 1\n"])
def test_an_empty_file_is_all_defaults_but_its_own_name(tmp_path: Path, text: str) -> None:
    loaded = read(tmp_path, text)
    assert loaded.job == Job(name="job")
    assert loaded.origins["name"] == "default"


@pytest.mark.parametrize(
    ("file", "name"),
    [("ads.yaml", "ads"), ("clicks.job.yaml", "clicks"), ("v1.2.yml", "v1.2"), ("my job.yaml", "clickline")],
)
def test_a_run_is_named_after_its_file_unless_the_job_says_otherwise(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).write_text("seed: 1\n", encoding="utf-8")
    assert read_job(tmp_path / file).job.name == name
    assert read_job(tmp_path / file, overrides=["name=other"]).job.name == "other"


def test_what_a_job_lacks_for_training_is_said() -> None:
    def lacking(*overrides: str) -> list[str]:
        return [problem.message for problem in missing_for_training(read_job(None, overrides=overrides).job)]

    assert lacking() == ["data.train is empty; training needs files"]
    wanted = "features.slots and features.dense are empty; format csv has none of its own"
    assert lacking("data.train=a", "data.format=csv") == [wanted]
    assert lacking("data.train=a") == []


def test_durations_are_seconds(tmp_path: Path) -> None:
    text = "features: {time: t}\ncluster: {evict_after: 1.5m, deadline: 2h}\ntables: {eviction: {unseen_for: 7d}}\n"
    job = read(tmp_path, text).job
    assert (job.cluster.evict_after, job.cluster.deadline, job.tables.eviction.unseen_for) == (90.0, 7200.0, 604_800)
    assert read_job(None, overrides=["cluster.heartbeat=30s"]).job.cluster.heartbeat == 30


def test_origins_tell_file_override_and_default_apart(tmp_path: Path) -> None:
    text = "name: a\ntrain:\n  epochs: 2\n  optimizer: {name: sgd}\nfeatures:\n  slots:\n  - C1\n  - name: C2\n"
    loaded = read(tmp_path, text, "train.batch_size=8", "features.slots[1].pooling=mean")
    found = {
        key: loaded.origins[key]
        for key in (
            "name",
            "seed",
            "train.epochs",
            "train.batch_size",
            "train.log_every",
            "train.optimizer.name",
            "train.optimizer.clip",
            "features.slots[0].name",
            "features.slots[0].pooling",
            "features.slots[1].name",
            "features.slots[1].pooling",
        )
    }
    assert found == {
        "name": "file line 1",
        "seed": "default",
        "train.epochs": "file line 3",
        "train.batch_size": "override",
        "train.log_every": "default",
        "train.optimizer.name": "file line 4",
        "train.optimizer.clip": "default",
        "features.slots[0].name": "file line 7",
        "features.slots[0].pooling": "default",
        "features.slots[1].name": "file line 8",
        "features.slots[1].pooling": "override",
    }
    assert read(tmp_path, "seed: 2").origins["name"] == "default"


@pytest.mark.parametrize(
    ("written", "number"),
    [("1e-3", 1e-3), ("1E-3", 1e-3), ("1", 1.0), (".5", 0.5), ("5.", 5.0), ("+1.5", 1.5), ("2.5e+1", 25.0)],
)
def test_numbers_may_be_written_as_in_yaml_1_2(tmp_path: Path, written: str, number: float) -> None:
    assert (
        read(tmp_path, f"train: {{optimizer: {{learning_rate: {written}}}}}").job.train.optimizer.learning_rate
        == number
    )


@pytest.mark.parametrize(
    "written", ["no", "on", "007", "12:30", "12_30", "0x1f", "+5", "-0", "2024-01-01", "1.2.3", "=", "nan"]
)
def test_words_that_older_yaml_takes_for_something_else_stay_words(tmp_path: Path, written: str) -> None:
    slot = written.replace(":", "_")
    assert read(tmp_path, f"features: {{slots: [{slot}]}}\noutput: {written}").job.output == written
    assert read(tmp_path, f"features: {{slots: [{slot}]}}").job.features.slots[0].name == slot


def test_numbers_may_name_slots_and_columns(tmp_path: Path) -> None:
    text = "features:\n  labels: [0]\n  slots: [101, {name: 102, column: 3}]\n  dense: [7]\n"
    features = read(tmp_path, text).job.features
    assert features.labels == ["0"]
    assert [(slot.name, slot.column) for slot in features.slots] == [("101", None), ("102", "3")]
    assert features.dense[0].name == "7"


def test_one_path_stands_for_a_list_of_one(tmp_path: Path) -> None:
    assert read(tmp_path, "data: {train: day_0.gz}").job.data.train == ["day_0.gz"]


def test_anchors_and_merges_work_and_the_nearest_value_wins(tmp_path: Path) -> None:
    text = (
        "tables:\n"
        "  embedding: &base\n"
        "    optimizer: {name: adam, l2: 0.5}\n"
        "    init_scale: 0.2\n"
        "  linear:\n"
        "    <<: *base\n"
        "    init_scale: 0.3\n"
    )
    loaded = read(tmp_path, text)
    assert loaded.job.tables.linear.optimizer.name == "adam"
    assert loaded.job.tables.linear.init_scale == 0.3
    assert loaded.job.tables.embedding.init_scale == 0.2
    assert loaded.origins["tables.linear.optimizer.l2"] == "file line 3"
    assert loaded.origins["tables.linear.init_scale"] == "file line 7"


def test_a_replaced_merge_leaves_no_trace(tmp_path: Path) -> None:
    text = "train: &t\n  optimizer: {name: sgd}\n" + "checkpoint: {}\n"
    merged = text.replace(
        "checkpoint: {}",
        "tables:\n  embedding:\n    <<: [{optimizer: {l1: 1}}, {optimizer: {l2: 1}}]\n    optimizer: {}",
    )
    loaded = read(tmp_path, merged)
    assert loaded.job.tables.embedding.optimizer.l1 == 0
    assert loaded.origins["tables.embedding.optimizer.l1"] == "default"


def test_a_key_that_is_not_given_keeps_the_default_of_its_place(tmp_path: Path) -> None:
    optimizer = read(tmp_path, "tables: {linear: {optimizer: {learning_rate: 0.1}}}").job.tables.linear.optimizer
    assert (optimizer.name, optimizer.initial, optimizer.learning_rate) == ("ftrl", 1.0, 0.1)
    assert Tables.model_validate({"linear": {"init_scale": 0.1}}).linear.optimizer.name == "ftrl"


def test_a_job_never_changes() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Job().train.epochs = 3  # type: ignore[misc]


def test_no_other_module_reads_yaml() -> None:
    """One loader, so that a word means the same in every file, and every mistake has its line."""
    readers = set()
    for file in Path(clickline.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "yaml":
                if node.attr not in ("safe_dump", "safe_dump_all"):
                    readers.add(file.name)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "yaml":
                readers.add(file.name)
    assert readers == {"yaml_lines.py"}
