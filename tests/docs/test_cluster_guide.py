"""The guide to many processes: its jobs are valid, and its variables and keys exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.config import Job
from clickline.launch.variables import OURS, PADDLE

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")
JOBS = re.findall(r"^```yaml\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", JOBS, ids=range(len(JOBS)))
def test_every_job_of_the_page_is_valid(tmp_path: Path, text: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["validate", str(file), "--without-files"])
    assert result.exit_code == 0, result.output


def test_the_jobs_mean_what_the_page_says() -> None:
    assert [Job.model_validate(yaml.safe_load(text)).resolved_strategy for text in JOBS] == ["async", "async", "async"]


def test_every_variable_of_the_page_exists() -> None:
    named = set(re.findall(r"\b(?:CLICKLINE|PADDLE)_[A-Z_]+\b", PAGE))
    assert named <= set(OURS) | set(PADDLE)


def test_every_key_of_the_page_exists() -> None:
    for section, key in re.findall(r"`(cluster|checkpoint)\.(\w+)", PAGE):
        assert key in type(getattr(Job(), section)).model_fields, f"{section}.{key}"
