"""Secrets: a job holds references, and nothing that reads, refuses or explains it repeats a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from clickline.config.data import Data
from clickline.config.loading.explanation import rows
from clickline.config.loading.reader import read_job
from clickline.config.secrets.secret_checks import is_secret
from clickline.errors import JobError

SECRET = "hunter2"  # noqa: S105


def problems(*overrides: str) -> list[str]:
    with pytest.raises(JobError) as caught:
        read_job(None, overrides=overrides)
    assert SECRET not in str(caught.value)
    assert SECRET not in str(caught.value.as_dict())
    return [str(problem) for problem in caught.value.errors]


def test_a_reference_is_kept_and_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S3_SECRET", SECRET)
    loaded = read_job(None, overrides=["data.storage.secret=${env:S3_SECRET}", "data.storage.url=http://${env:HOST}:1"])
    assert loaded.job.data.storage["secret"] == "${env:S3_SECRET}"  # noqa: S105
    shown = {row.key: row.shown for row in rows(loaded.job, loaded.origins)}
    assert shown["data.storage.secret"] == "${env:S3_SECRET}"
    assert SECRET not in loaded.job.model_dump_json()


@pytest.mark.parametrize(
    "wrong", ["${S3_SECRET}", "${env:}", "${env:A-B}", "${env:1A}", "${ENV:A}", "${env:A", "${file:/x}"]
)
def test_a_malformed_reference_is_refused(wrong: str) -> None:
    assert problems(f"data.storage.secret='{wrong}'") == [
        f"data.storage.secret, --set: {wrong} is not a reference; write ${{env:NAME}}"
    ]
    (problem,) = problems(f"data.reader={{nested: {{list: ['{wrong}']}}}}")
    assert problem.endswith("is not a reference; write ${env:NAME}")


def test_a_secret_that_is_written_out_is_refused_without_repeating_it() -> None:
    expected = "a secret does not belong into a job: {}; write ${{env:NAME}} and set NAME where the job runs"
    assert problems(f"data.storage.secret={SECRET}") == ["data.storage, --set: " + expected.format("secret")]
    assert problems(f"data.reader={{db: {{password: {SECRET}}}}}") == [
        "data.reader, --set: " + expected.format("db.password")
    ]


@pytest.mark.parametrize(
    "argument",
    [
        f"data.storage.secret:{SECRET}",
        f"data.storag.secret={SECRET}",
        f"data.storage={SECRET}",
        f"data.storage.secret=[{SECRET}]",
        f"data.storage.secret=[{SECRET}",
        f"data.storage.token={{{SECRET}: 1}}",
        f"data.train=https://me:{SECRET}@host/day_0.gz",
    ],
)
def test_no_mistake_around_a_secret_repeats_it(argument: str) -> None:
    assert len(problems(argument)) == 1


def test_a_syntax_error_does_not_quote_the_file(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(f"data:\n  storage: {{secret: {SECRET}\nname: x\n", encoding="utf-8")
    with pytest.raises(JobError) as caught:
        read_job(tmp_path / "job.yaml")
    assert SECRET not in str(caught.value)


def test_a_job_made_in_python_is_held_to_the_same() -> None:
    with pytest.raises(ValidationError) as caught:
        Data(storage={"secret": SECRET})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("place", ["data.train[0]", "output"])
def test_references_are_refused_where_they_would_not_be_looked_up(place: str) -> None:
    (problem,) = problems(f"{place}=s3://${{env:BUCKET}}/x")
    assert problem == f"{place}, --set: references are not looked up here, only in data.storage and data.reader"


@pytest.mark.parametrize(
    "name", ["secret", "SECRET_ACCESS_KEY", "secretAccessKey", "sas_token", "db-password", "api_key"]
)
def test_names_that_tell_a_secret(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["key", "endpoint_url", "user", "tokenizer", "group_key", "anon"])
def test_names_that_do_not(name: str) -> None:
    assert not is_secret(name)
