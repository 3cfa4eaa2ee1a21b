"""Logs of several processes read as one: merged by time, followed through truncation and files that appear later."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.cli.verbs.suite.logs import _show
from clickline.processes.log_follower import Follower
from clickline.processes.logs import line, stamp_of, tail
from support.eventually import eventually

runner = CliRunner()


def at(second: int, text: str, *, name: str = "trainer.0") -> str:
    return f"2026-01-02T03:04:{second:02d}.000 INFO {name} {text}\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    logs = tmp_path / "run" / "logs"
    logs.mkdir(parents=True)
    (logs / "pserver.0.log").write_text(
        at(1, "one", name="pserver.0") + at(4, "four", name="pserver.0") + "Traceback\n  deep\n", encoding="utf-8"
    )
    (logs / "trainer.0.log").write_text(at(2, "two") + at(5, "five"), encoding="utf-8")
    (logs / "trainer.1.log").write_text(at(3, "three", name="trainer.1"), encoding="utf-8")
    return tmp_path / "run"


def texts(follower: Follower, *, lines: int | None = None) -> list[str]:
    found = follower.new() if lines is None else follower.last(lines)
    return [line.text.rpartition(" ")[2] for line in found]


def test_lines_are_merged_by_time_and_a_traceback_stays_together(run: Path) -> None:
    assert texts(Follower(run / "logs"), lines=50) == ["one", "two", "three", "four", "Traceback", "deep", "five"]


def test_the_last_lines_are_the_last_of_all_files(run: Path) -> None:
    assert texts(Follower(run / "logs"), lines=2) == ["deep", "five"]
    assert texts(Follower(run / "logs"), lines=0) == []


def test_following_goes_on_where_the_last_lines_ended(run: Path) -> None:
    follower = Follower(run / "logs")
    follower.last(1)
    assert texts(follower) == []
    with (run / "logs" / "trainer.0.log").open("a", encoding="utf-8") as file:
        file.write(at(7, "seven") + at(8, "eight")[:-4])
        file.flush()
        assert texts(follower) == ["seven"]  # a line counts when it is whole
        file.write("ght\n")
    (run / "logs" / "trainer.2.log").write_text(at(6, "six"), encoding="utf-8")
    assert texts(follower) == ["six", "eight"]


def test_following_survives_truncation_replacement_and_removal(run: Path) -> None:
    follower = Follower(run / "logs")
    follower.last(1)
    file = run / "logs" / "trainer.0.log"
    file.write_text(at(9, "cut"), encoding="utf-8")
    assert texts(follower) == ["cut"]
    other = file.with_suffix(".new")
    other.write_text(at(10, "replaced") + at(11, "longer"), encoding="utf-8")
    other.rename(file)
    assert texts(follower) == ["replaced", "longer"]
    file.unlink()
    assert texts(follower) == []


def test_the_end_of_a_long_file_is_read_from_the_end(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_text("".join(f"line {number} {'x' * 90}\n" for number in range(5000)), encoding="utf-8")
    assert [text.split()[1] for text in tail(file, 3)] == ["4997", "4998", "4999"]
    assert len(tail(file, 1500)) == 1500
    assert len(tail(file, 10_000)) == 5000
    assert tail(file, 10, since=file.stat().st_size) == []
    assert tail(tmp_path / "missing", 3) == []


def test_a_line_has_its_time_where_it_is_looked_for() -> None:
    text = line("launcher", "starts trainer.0")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} INFO launcher starts trainer\.0\n", text)
    assert stamp_of(text.encode()) == text[:23]
    assert stamp_of(b"Traceback (most recent call last):") == ""


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([], ["one", "two", "three", "four", "Traceback", "deep", "five"]),
        (["trainer"], ["two", "three", "five"]),
        (["trainer.1"], ["three"]),
        (["pserver", "-n", "2"], ["Traceback", "deep"]),
    ],
)
def test_the_verb_filters_by_role(run: Path, arguments: list[str], shown: list[str]) -> None:
    result = runner.invoke(app, ["logs", "--run", str(run), *arguments])
    assert result.exit_code == 0
    assert [text.rpartition(" ")[2] for text in result.output.splitlines()] == shown


def test_the_newest_run_is_shown_if_none_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    assert "there is no run in" in runner.invoke(app, ["logs"]).stderr
    (run.parent / "runs").mkdir()
    run.rename(run.parent / "runs" / "a")
    assert runner.invoke(app, ["logs", "-n", "1"]).output == at(5, "five")


def test_a_role_without_logs_is_an_error_that_names_the_others(run: Path) -> None:
    result = runner.invoke(app, ["logs", "--run", str(run), "master"])
    assert result.exit_code == 1
    assert "has no log of master; it has pserver.0, trainer.0, trainer.1" in result.stderr


def test_following_as_a_process_until_it_is_interrupted(run: Path) -> None:
    command = [sys.executable, "-m", "clickline", "logs", "-f", "-n", "1", "--run", str(run), "trainer"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    got: list[str] = []
    with process:
        assert process.stdout is not None
        reader = threading.Thread(target=got.extend, args=(iter(process.stdout.readline, ""),))
        reader.start()
        eventually(lambda: got)
        (run / "logs" / "trainer.7.log").write_text(at(12, "late", name="trainer.7"), encoding="utf-8")
        eventually(lambda: len(got) == 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        reader.join()
    assert got == [at(5, "five"), at(12, "late", name="trainer.7")]


def test_on_a_terminal_roles_have_colours() -> None:
    console = Console(file=StringIO(), force_terminal=True, color_system="standard", width=200)
    _show(console, "trainer.0", at(1, "fine").rstrip())
    _show(console, "pserver.0", "  deep [bold]")
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "\x1b[32mtrainer.0\x1b[0m" in shown[0]
    assert shown[1] == "\x1b[36m│ \x1b[0m  deep [bold]"
