"""A wrong job: every mistake is named, with its key, its line, what was given and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError, field_validator

from clickline.config import Job
from clickline.config.data import FORMAT_PATTERN
from clickline.config.loading.origins import Origins
from clickline.config.loading.problem_messages import PATTERNS, problem_of
from clickline.config.loading.reader import read_job
from clickline.config.section import Section
from clickline.errors import JobError


def mistakes(folder: Path, text: str, *overrides: str) -> list[str]:
    """The lines of the message, after the first."""
    file = folder / "job.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(JobError) as caught:
        read_job(file, overrides=overrides)
    first, *rest = str(caught.value).splitlines()
    count = "1 error" if len(rest) == 1 else f"{len(rest)} errors"
    assert first == f"{file}: {count}"
    assert [f"  {problem}" for problem in caught.value.errors] == rest
    return [line.strip() for line in rest]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model:\n  embeding_dim: 8", "model.embeding_dim, line 2: unknown key; did you mean embedding_dim?"),
        ("Train: {}", "Train, line 1: unknown key; did you mean train?"),
        ("batch_size: 3", "batch_size, line 1: unknown key; did you mean train.batch_size?"),
        (
            "checkpoint: {zzz: 1}",
            "checkpoint.zzz, line 1: unknown key; known keys: "
            "every_steps, every_epochs, keep, interrupt_timeout, transfer",
        ),
        (
            "cluster: {hosts: [{host: -oProxyCommand=x}]}",
            'cluster.hosts[0].host, line 1: "-oProxyCommand=x" is not [USER@]HOST, where HOST is a name or an address',
        ),
        (
            "cluster: {hosts: [{host: a, address: b c}]}",
            'cluster.hosts[0].address, line 1: "b c" is not a name or an address',
        ),
        ("train:\n  epochs: 0", "train.epochs, line 2: 0 is too small; must be at least 1"),
        ("train: {epochs: 10001}", "train.epochs, line 1: 10001 is too large; must be at most 10000"),
        ("model: {dropout: 1}", "model.dropout, line 1: 1 is too large; must be less than 1"),
        (
            "train: {optimizer: {learning_rate: 0}}",
            "train.optimizer.learning_rate, line 1: 0 is too small; must be more than 0",
        ),
        ("train: {batch_size: big}", 'train.batch_size, line 1: "big" is not an integer'),
        (
            'train: {batch_size: "3"}',
            'train.batch_size, line 1: "3" is not an integer; write 3 without quotes, leading zeros and underscores',
        ),
        ("train: {batch_size: true}", "train.batch_size, line 1: true is not an integer"),
        ("train: {batch_size: 1e3}", "train.batch_size, line 1: 1000.0 is not an integer; write 1000"),
        ("train: {batch_size: [1]}", "train.batch_size, line 1: a list is not an integer"),
        ("train:\n  epochs:", "train.epochs, line 2: empty; expected an integer"),
        ("model: {dropout: half}", 'model.dropout, line 1: "half" is not a number'),
        ("tables: {count_decay: .nan}", "tables.count_decay, line 1: nan is not a finite number"),
        (
            "train: {log_format: paddle}",
            'train.log_format, line 1: "paddle" is not one of clickline, paddlerec; did you mean paddlerec?',
        ),
        ("train: {loss: mse}", 'train.loss, line 1: "mse" is not one of log, squared'),
        ("train: {tensorboard: yes}", 'train.tensorboard, line 1: "yes" is not true or false'),
        (
            "metrics: {own: [foo]}",
            'metrics.own[0], line 1: "foo" is not module:function or path/to/file.py:function',
        ),
        ("output: 3", "output, line 1: 3 is not text; put it in quotes"),
        ("train:", "train, line 1: empty; expected a mapping of keys to values"),
        ("train: 3", "train, line 1: 3 is not a mapping of keys to values"),
        ("model: {hidden: 3}", "model.hidden, line 1: 3 is not a list; write [3]"),
        (
            "train: {optimizer: adam}",
            'train.optimizer, line 1: "adam" is not a mapping of keys to values; write {name: adam}',
        ),
        ("train: {lr: 0.01}", "train.lr, line 1: unknown key; did you mean train.optimizer.learning_rate?"),
        ("lr: 0.01", "lr, line 1: unknown key; did you mean train.optimizer.learning_rate?"),
        (
            "tables: {linear: {optimizer: {lr: 1}}}",
            "tables.linear.optimizer.lr, line 1: unknown key; did you mean tables.linear.optimizer.learning_rate?",
        ),
        ("train: {batch: 8}", "train.batch, line 1: unknown key; did you mean train.batch_size?"),
        ("emb_dim: 8", "emb_dim, line 1: unknown key; did you mean model.embedding_dim?"),
        ("model: {emb_dim: 8}", "model.emb_dim, line 1: unknown key; did you mean model.embedding_dim?"),
        (
            "cluster: {evict_after: 3 min}",
            'cluster.evict_after, line 1: "3 min" is not a duration; write a number of seconds, or one such as 30s, '
            "15m, 12h or 7d",
        ),
        ("cluster: {evict_after: 30d}", "cluster.evict_after, line 1: 2592000 is too large; must be at most 1000000"),
        (
            "tables: {eviction: {unseen_for: 7d}}",
            'tables.eviction.unseen_for, line 1: "7d" is a duration, but without features.time rows age by steps: give '
            "a number of steps",
        ),
        ("model:\n  hidden:\n  - 8\n  - 0", "model.hidden[1], line 4: 0 is too small; must be at least 1"),
        (
            "features:\n  slots:\n  - C1\n  - name: C2\n    pooling: maxx",
            'features.slots[1].pooling, line 5: "maxx" is not one of sum, mean, max, sequence; did you mean max?',
        ),
        ("features: {slots: [{pooling: sum}]}", "features.slots[0].name, line 1: missing; it has no default"),
        (
            "features: {slots: [C1, a b]}",
            'features.slots[1].name, line 1: "a b" is not a name without spaces and colons',
        ),
        ("features: {labels: []}", "features.labels, line 1: 0 elements; must have at least 1"),
        (
            "data: {format: cretio}",
            'data.format, line 1: "cretio" is not one of criteo, slots, elasticctr, csv, parquet, or module:Class; '
            "did you mean criteo?",
        ),
        (
            "name: ../up",
            'name, line 1: "../up" is not a name of letters, digits, _ . and - that starts with a letter, digit or _',
        ),
        (
            "data: {placement: nodes}",
            'data.placement, line 1: "nodes" is not one of shared, node, split; did you mean node?',
        ),
        ('data: {train: [""]}', 'data.train[0], line 1: "" is empty; it must not be'),
        ("data: {delimiter: ab}", 'data.delimiter, line 1: "ab" is longer than 1'),
        ("seed: 1\ntrain: {}\nseed: 2", "seed, line 3: given twice; the first is on line 1"),
        ("train:\n  epochs: 1\n  epochs: 2", "train.epochs, line 3: given twice; the first is on line 2"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    assert mistakes(tmp_path, text) == [expected]


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "sed: 3\ntrain:\n  epochs: 0\n  epochs: 1\n  batch_size: big\nmodel:\n  dropout: 2\n"
    assert mistakes(tmp_path, text, "checkpoint.keep=0") == [
        "sed, line 1: unknown key; did you mean seed?",
        # `epochs` is reported for one thing only: which of the two values counts is not known yet.
        "train.epochs, line 4: given twice; the first is on line 3",
        'train.batch_size, line 5: "big" is not an integer',
        "model.dropout, line 7: 2 is too large; must be less than 1",
        "checkpoint.keep, --set: 0 is too small; must be at least 1",
    ]


def test_mistakes_are_there_for_programs_too(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("train:\n  epochs: 0\n", encoding="utf-8")
    with pytest.raises(JobError) as caught:
        read_job(tmp_path / "job.yaml", overrides=["modle.name=dcn"])
    assert caught.value.exit_code == 3
    assert caught.value.as_dict()["errors"] == [
        {
            "key": "train.epochs",
            "message": "0 is too small; must be at least 1",
            "line": 2,
            "column": None,
            "override": False,
        },
        {
            "key": "modle",
            "message": "unknown key; did you mean model?",
            "line": None,
            "column": None,
            "override": True,
        },
    ]


def test_a_long_value_is_cut_short_in_the_message(tmp_path: Path) -> None:
    (message,) = mistakes(tmp_path, f"train: {{epochs: {'x' * 5000}}}")
    assert len(message) < 120
    assert message.endswith("(5002 characters) is not an integer")


def test_the_words_of_a_validator_stand_without_those_of_pydantic():
    class Even(Section):
        count: int = 0

        @field_validator("count")
        @classmethod
        def _check(cls, value: int) -> int:
            raise ValueError("must be even")

    with pytest.raises(ValidationError) as caught:
        Even(count=3)
    assert problem_of(caught.value.errors()[0], Origins(), Even).message == "3: must be even"


def patterns_in(schema: object) -> set[str]:
    """All patterns of a JSON Schema."""
    if isinstance(schema, list):
        return set().union(*map(patterns_in, schema))
    if not isinstance(schema, dict):
        return set()
    own = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
    return own.union(*map(patterns_in, schema.values()))


def test_every_pattern_of_a_key_is_told_in_words() -> None:
    assert patterns_in(Job.model_json_schema()) - set(PATTERNS) == {FORMAT_PATTERN}, "which has a message of its own"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cluster: {kubernetes: {trainer: {memory: lots}}}", '"lots" is not a quantity of Kubernetes'),
        ("cluster: {kubernetes: {namespace: My Team}}", '"My Team" is not a name of Kubernetes'),
        ("train: {frozen: [a b]}", '"a b" is not the name of a part of the model'),
    ],
)
def test_a_value_of_the_wrong_form_is_told_with_what_was_expected(text: str, said: str, tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, text)
    assert said in line
