"""The page on compatibility has a script that prints the log lines of the systems before; it is taken from there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from clickline.config import Job
from clickline.train.session import train_job

PAGE = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text(encoding="utf-8")
NUMBER = r"\d+(?:\.\d+)?(?:e-?\d+)?"
FORMS = {
    "edl and ElasticCTR": rf"TRAIN --> pass: (\d+) batch: (\d+) loss: {NUMBER} auc: {NUMBER}, batch_auc: {NUMBER}",
    "PaddleRec": r"\t\[Train\] epoch: (\d+), batch: (\d+), time_each_interval: \d+\.\d\ds, "
    rf"LOSS: {NUMBER}, AUC: {NUMBER}",
    "Paddle v1": rf"Batch=(\d+) samples=(\d+) AvgCost={NUMBER} CurrentCost={NUMBER} Eval:  CurrentEval: ",
}


@pytest.fixture
def lines(small_job: Job, tmp_path: Path) -> list[str]:
    run = train_job(small_job).directory
    (script,) = re.findall(r"^```python\n(# log_lines\.py\n.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "log_lines.py").write_text(script, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "log_lines.py"), str(run)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_every_interval_has_a_line_of_each_form(lines: list[str]) -> None:
    found = {name: [match for line in lines if (match := re.fullmatch(form, line))] for name, form in FORMS.items()}
    intervals = 6  # of 7 steps each, in 45 steps
    assert {name: len(matches) for name, matches in found.items()} == dict.fromkeys(FORMS, intervals)
    assert len(lines) == 3 * intervals
    assert [int(match[2]) for match in found["PaddleRec"]] == [7, 14, 21, 28, 35, 42]
    assert int(found["Paddle v1"][-1][2]) == 4200
