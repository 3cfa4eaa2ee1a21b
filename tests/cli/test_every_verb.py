"""What all verbs have in common: help with an example, exit codes, errors as text and as JSON, completion, speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
from typer.testing import CliRunner

import clickline
from clickline import errors
from clickline.cli.all_verbs import app
from clickline.cli.application import EXIT_CODES
from clickline.cli.reference import page
from clickline.cli.shared.output import AsJson, ReportingGroup

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
runner = CliRunner()


def verbs(group: Any, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, verb in group.commands.items():
        found += verbs(verb, (*prefix, name)) if hasattr(verb, "commands") else [(*prefix, name)]
    return found


VERBS = verbs(typer.main.get_command(app))


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "clickline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_has_help_with_an_example(verb: tuple[str, ...]) -> None:
    result = runner.invoke(app, [*verb, "--help"])
    assert result.exit_code == 0
    assert f"Example: clickline {' '.join(verb)}" in result.output


def test_exit_codes_are_those_of_the_errors_and_in_the_help() -> None:
    raised = [one for one in errors.ClicklineError.__subclasses__() if one.__module__ == errors.__name__]
    assert {error.exit_code for error in raised} == {3, 4, 5, 6, 7, 8, 9}
    assert set(EXIT_CODES) == {0, 1, 2, 130} | {error.exit_code for error in raised}
    help_text = " ".join(runner.invoke(app, ["--help"]).output.split())
    assert (
        "0 ok, 1 failed, 2 usage, 3 job, 4 data, 5 model, 6 checkpoint, 7 peer, 8 version, 9 replaced, "
        "130 interrupted" in help_text
    )


def test_the_reference_is_current() -> None:
    remedy = "run python -m clickline.cli.reference docs/reference"
    assert REFERENCE.read_text(encoding="utf-8") == page(), remedy


def test_the_module_runs_as_a_program_and_tells_its_version() -> None:
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"clickline {clickline.__version__}\n")


@pytest.mark.parametrize("arguments", [["nothing"], ["validate"], ["validate", "a", "--nothing"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    assert runner.invoke(app, arguments).exit_code == 2


def test_help_does_not_load_pytorch() -> None:
    check = "import sys, clickline.cli; sys.exit(bool({'torch', 'numpy', 'pyarrow', 'pydantic'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_shells_get_their_completion() -> None:
    script = run("--show-completion", SHELL="/bin/bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    if script.returncode == 2:  # without shell detection, the shell is named
        script = run("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_CLICKLINE_COMPLETE=complete_bash" in script.stdout
    words = run(_CLICKLINE_COMPLETE="complete_bash", COMP_WORDS="clickline va", COMP_CWORD="1")
    assert words.stdout.split() == ["validate"]


def failing(error: BaseException) -> typer.Typer:
    """A program with one group and one verb in it, which fails."""
    program = typer.Typer(cls=ReportingGroup, pretty_exceptions_enable=False)
    group = typer.Typer()
    program.add_typer(group, name="group")
    program.callback()(lambda: None)

    @group.command()
    def fail(as_json: AsJson = False) -> None:
        raise error

    group.callback()(lambda: None)
    return program


def test_an_error_is_a_message_on_stderr_and_its_exit_code() -> None:
    result = runner.invoke(failing(errors.DataError("slots[3] is [bold]bad[/bold]")), ["group", "fail"])
    assert (result.exit_code, result.stdout, result.stderr) == (4, "", "slots[3] is [bold]bad[/bold]\n")


def test_a_long_error_is_not_wrapped() -> None:
    message = "word " * 60 + "end"
    assert runner.invoke(failing(errors.ModelError(message)), ["group", "fail"]).stderr == message + "\n"


def test_an_error_as_json_is_on_stdout() -> None:
    result = runner.invoke(failing(errors.CheckpointError("gone")), ["group", "fail", "--json"])
    assert result.exit_code == 6
    assert json.loads(result.stdout) == {"error": {"type": "CheckpointError", "message": "gone", "exit_code": 6}}
    assert result.stderr == ""


def test_an_interrupt_exits_with_130_and_no_traceback() -> None:
    result = runner.invoke(failing(KeyboardInterrupt()), ["group", "fail"])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_a_bug_shows_its_traceback() -> None:
    result = runner.invoke(failing(ZeroDivisionError("a bug")), ["group", "fail"])
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize(("module", "collected"), [("triton", "collected"), ("other", "")])
def test_bindings_that_complain_of_leaks_are_collected_at_exit(tmp_path: Path, module: str, collected: str) -> None:
    """The others are not, which makes the end of a process that has loaded PyTorch faster by a second or more."""
    (tmp_path / f"{module}.py").write_text(
        "import os\n\n\nclass Bindings:\n    def __init__(self):\n        self.circle = self\n\n"
        "    def __del__(self, write=os.write):\n        write(1, b'collected')\n\n\nBindings()\n"
    )
    code = f"import gc; gc.disable(); import {module}; from clickline.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        check=True,
    )
    assert done.stdout == f"clickline {clickline.__version__}\n{collected}"
