"""`clickline bench serve`: figures as text with a picture, and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from clickline.cli.all_verbs import app
from support.doubles.predictor_double import PredictorDouble, refuse


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "serve", *arguments])


def test_figures_as_text(double: PredictorDouble) -> None:
    result = bench(double.url, "--requests", "50", "--connections", "2", "--rows", "3")
    assert result.exit_code == 0, result.output
    for expected in ("50 requests in", "closed loop, 2 connections, 3 rows each, json", "99.9 %", "█", "requests/s"):
        assert expected in result.stdout
    assert "versions: 7 (50)" in result.stdout


@pytest.mark.parametrize("protocol", ["json", "v2", "binary"])
def test_figures_as_json(double: PredictorDouble, protocol: str) -> None:
    result = bench(double.url, "--requests", "20", "--rate", "200", "--protocol", protocol, "--json", "--model", "ctr")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert (figures["requests"], figures["failed"], figures["protocol"]) == (20, 0, protocol)
    assert (figures["loop"], figures["rate"], figures["connections"], figures["rows"]) == ("open", 200.0, 32, 16)
    assert set(figures["microseconds"]) == {"avg", "50", "80", "90", "99", "99.9", "max"}


def test_rows_of_a_file_are_what_is_asked_about(double: PredictorDouble, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("label,I1\n0,41\n1,42\n", encoding="utf-8")
    assert bench(double.url, "--requests", "5", "--file", str(tmp_path / "rows.csv")).exit_code == 0
    bodies = [json.loads(body) for path, _, body in double.asked if path.endswith("/predict")]
    assert {row["I1"] for body in bodies for row in body["instances"]} == {"41", "42"}


def test_failures_are_told_by_reason_and_by_the_exit_code(double: PredictorDouble) -> None:
    double.script.extend([lambda _: True, refuse(429, "overloaded"), refuse(429, "overloaded")])
    result = bench(double.url, "--requests", "10")
    assert result.exit_code == 1
    assert "failed: 2 (overloaded 2)" in result.stdout


def test_an_unknown_protocol_lists_the_known() -> None:
    result = bench("--protocol", "soap")
    assert result.exit_code == 2
    assert "json, v2, binary, grpc" in " ".join(result.output.replace("│", " ").split())


def test_nobody_there_is_exit_code_7() -> None:
    gone = PredictorDouble()
    gone.stop()
    assert bench(gone.url, "--requests", "5").exit_code == 7
