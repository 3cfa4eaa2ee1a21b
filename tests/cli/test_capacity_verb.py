"""`clickline capacity`: memory of a table, measured, for people and programs; what it refuses."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.config.tables import SparseOptimizer

runner = CliRunner()
RULES = get_args(SparseOptimizer.model_fields["name"].annotation)
STATES = {"sgd": 0, "adagrad": 1, "adam": 2, "adamw": 2, "ftrl": 2}
"""Vectors that a rule keeps for each row."""


def run(*arguments: str) -> tuple[int, str, str]:
    result = runner.invoke(app, ["capacity", *arguments], env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def measured(*arguments: str) -> dict[str, Any]:
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    facts: dict[str, Any] = json.loads(out)
    return facts


@pytest.mark.parametrize("optimizer", RULES)
def test_a_row_pays_for_its_vector_and_for_the_state_of_its_rule(optimizer: str) -> None:
    small, large = (measured("--rows", "3000", "--dim", dim, "--optimizer", optimizer) for dim in ("4", "12"))
    assert (small["rows"], small["dim"], small["optimizer"]) == (3000, 4, optimizer)
    assert large["payload_bytes_per_row"] - small["payload_bytes_per_row"] == 8 * 4 * (1 + STATES[optimizer])
    assert small["bytes_per_row"] > small["payload_bytes_per_row"]
    assert small["overhead"] == pytest.approx(small["bytes_per_row"] / small["payload_bytes_per_row"] - 1, abs=1e-3)


def test_rows_of_several_pushes_are_all_counted() -> None:
    assert measured("--rows", "300001", "--dim", "1", "--optimizer", "sgd")["rows"] == 300_001


def test_what_is_planned_is_extrapolated() -> None:
    facts = measured("--rows", "5000", "--dim", "8", "--planned", "1000000000")
    assert facts["planned_rows"] == 1_000_000_000
    assert facts["planned_gib"] == pytest.approx(facts["bytes_per_row"] * 1e9 / 2**30, rel=1e-3)
    assert "planned_gib" not in measured("--rows", "5000", "--dim", "8")


def test_people_get_sentences() -> None:
    code, out, _ = run("--rows", "2000", "--dim", "4", "--planned", "1000000")
    assert code == 0
    first, second = out.splitlines()
    assert re.fullmatch(
        r"2,000 rows of dimension 4 under adagrad: [\d.]+ bytes a row, payload \d+ \(overhead [\d.]+%\)", first
    )
    assert re.fullmatch(r"1,000,000 rows would take [\d.]+ GiB", second)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--optimizer", "momentum"], "'momentum' is not one of"),
        (["--rows", "0"], "greater than or equal to 1"),
        (["--dim", "5000"], "less than or equal to 4096"),
        (["--planned", "many"], "'--planned': Input should be a valid integer"),
    ],
)
def test_a_wrong_value_is_a_mistake_of_usage(wrong: list[str], said: str) -> None:
    code, out, err = run("--rows", "10", *wrong)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
