"""The verbs of `clickline data import`: options, what they print, exit codes."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from clickline.cli.shared.output import ReportingGroup
from clickline.cli.verbs.data import import_
from support.data.downloads import AVAZU_COLUMNS, avazu_lines, criteo_lines, movielens_zip

program = typer.Typer(cls=ReportingGroup, pretty_exceptions_enable=False)
program.add_typer(import_.app, name="import")
program.callback()(lambda: None)
runner = CliRunner()


@pytest.fixture
def downloads(tmp_path):
    (tmp_path / "criteo.txt").write_bytes(b"".join(criteo_lines(1100)) + b"bad\n")
    (tmp_path / "avazu.csv").write_bytes(b"".join([AVAZU_COLUMNS.encode() + b"\n", *avazu_lines(["14102100"] * 10)]))
    movielens_zip(tmp_path / "movielens.zip", [(1, movie, 4, movie) for movie in range(1, 11)])
    return tmp_path


@pytest.mark.parametrize(
    ("verb", "name"), [("criteo", "criteo.txt"), ("avazu", "avazu.csv"), ("movielens", "movielens.zip")]
)
def test_each_verb_says_what_to_do_next(verb, name, downloads):
    out = downloads / "out"
    arguments = ["import", verb, str(downloads / name), "--out", str(out)]
    result = runner.invoke(program, arguments)
    assert result.exit_code == 0, result.stderr
    assert f"next: clickline train {out / 'job.yaml'}" in result.stdout
    assert (f"or:   clickline train {out / 'rating.yaml'}" in result.stdout) == (verb == "movielens")
    assert ("line 1101" in result.stderr) == (verb == "criteo")
    again = runner.invoke(program, [*arguments, "--json"])
    assert again.exit_code == 4
    assert "--force" in json.loads(again.stdout)["error"]["message"]
    forced = runner.invoke(program, [*arguments, "--json", "--force", "--test-share", "0.5"])
    facts = json.loads(forced.stdout)
    assert (forced.exit_code, facts["train_rows"]) == (0, facts["test_rows"])


def test_rows_and_shares_out_of_range_are_wrong_usage(downloads):
    arguments = ["import", "criteo", str(downloads / "criteo.txt"), "--out", str(downloads / "out")]
    assert runner.invoke(program, [*arguments, "--rows", "1"]).exit_code == 2
    assert runner.invoke(program, [*arguments, "--test-share", "1"]).exit_code == 2
    assert not (downloads / "out").exists()
