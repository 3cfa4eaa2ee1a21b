"""`clickline predict`: rows by every way in, answers as a table, as lines and as JSON, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from clickline.cli.all_verbs import app
from clickline.cli.shared.client_options import DEFAULT_URL, predictor_url
from clickline.launch.suite_state import claimed, write_suite
from support.doubles.predictor_double import PredictorDouble, refuse

Ask = Callable[..., Result]
CRITEO = "\t".join(["1", "3", *[""] * 12, "68fd1e64", *[""] * 25])


@pytest.fixture
def ask(double: PredictorDouble) -> Ask:
    def run(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, ["predict", "--url", double.url, *arguments], input=stdin)

    return run


def sent(double: PredictorDouble) -> list[dict[str, object]]:
    return [row for path, _, body in double.asked if path.endswith("predict") for row in json.loads(body)["instances"]]


def test_a_row_by_its_columns(double: PredictorDouble, ask: Ask) -> None:
    result = ask("I1=3", "C1=a=b", "tags=x", "tags=y")
    assert result.exit_code == 0, result.output
    assert sent(double) == [{"I1": "3", "C1": "a=b", "tags": ["x", "y"]}]
    assert "0.030000" in result.stdout
    assert "I1=3 C1=a=b" in result.stdout


def test_rows_as_json(double: PredictorDouble, ask: Ask) -> None:
    result = ask('{"I1": 3}', '{"I1": 4, "C1": null}', "--json")
    assert json.loads(result.stdout) == {
        "model": "ctr",
        "versions": [7],
        "missing": 0,
        "predictions": [{"probability": 0.03, "version": 7}, {"probability": 0.04, "version": 7}],
    }
    assert sent(double) == [{"I1": 3}, {"I1": 4, "C1": None}]


FILES = {
    "json": ('{"I1": 3, "C1": "68fd1e64"}\n\n{"I1": 4}\n', [{"I1": 3, "C1": "68fd1e64"}, {"I1": 4}]),
    "json log": ('{"I1": 3, "label": 0, "seen": 9}\n{"I1": 4, "seen": 8}\n', [{"I1": 3}, {"I1": 4}]),
    "criteo": (f"{CRITEO}\n{CRITEO[2:]}\r\n", [{"I1": "3", "C1": "68fd1e64"}] * 2),
    "csv": ('label,I1,C1,other\n0,3,"a,b",z\n1,,c,z\n', [{"I1": "3", "C1": "a,b"}, {"C1": "c"}]),
    "slots": (
        "click:1 I1:3 tags:a tags:b\nclick:0 I1:4 C1:x:y\n",
        [{"I1": "3", "tags": ["a", "b"]}, {"I1": "4", "C1": "x:y"}],
    ),
    "elasticctr": ("1 0 3:I1 77:C1\n1 1 4:I1 5:9\n", [{"I1": "3", "C1": "77"}, {"I1": "4"}]),
}


@pytest.mark.parametrize("named", [False, True], ids=["found out", "named"])
@pytest.mark.parametrize("form", FILES)
def test_a_file_is_taken_apart_by_column(
    double: PredictorDouble, ask: Ask, tmp_path: Path, form: str, named: bool
) -> None:
    text, rows = FILES[form]
    (tmp_path / "rows").write_text(text, encoding="utf-8", newline="")
    how = ["--format", form.partition(" ")[0]] if named else []
    result = ask("--file", str(tmp_path / "rows"), "--json", *how)
    assert result.exit_code == 0, result.output
    assert sent(double) == rows


def test_a_column_that_is_left_out_is_told_once_with_what_may_be_meant(double: PredictorDouble, ask: Ask) -> None:
    result = ask("--json", stdin='{"I1": 3, "tag": "a", "seen": 1}\n{"I1": 4, "tag": "b"}\n')
    assert result.exit_code == 0, result.output
    assert sent(double) == [{"I1": 3}, {"I1": 4}]
    assert result.stderr.count("column 'tag' is dropped: the model does not read it; did you mean tags?") == 1
    assert result.stderr.count("column 'seen' is dropped: the model does not read it") == 1


def test_standard_input_is_the_same_as_a_file(double: PredictorDouble, ask: Ask) -> None:
    assert len(json.loads(ask("--json", stdin='{"I1": 3}\n{"I1": 4}\n').stdout)["predictions"]) == 2
    assert len(json.loads(ask("--json", "--file", "-", stdin='{"I1": 3}\n').stdout)["predictions"]) == 1


def test_many_rows_go_in_several_requests_and_come_as_lines(double: PredictorDouble, ask: Ask) -> None:
    text = "".join(json.dumps({"I1": number}) + "\n" for number in range(250))
    result = ask("--batch", "60", stdin=text)
    assert sum(path == "/predict" for path, _, _ in double.asked) == 5
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == [str(number) for number in range(1, 251)]
    assert lines[33] == ["34", "0.330000", "7"]


def test_versions_that_changed_on_the_way_are_all_told(double: PredictorDouble, ask: Ask) -> None:
    def switch(_: object) -> bool:
        double.version = 8
        return True

    double.script.extend([lambda _: True, switch])
    said = json.loads(ask("--batch", "1", "--json", stdin='{"I1": 3}\n{"I1": 4}\n').stdout)
    assert said["versions"] == [7, 8]
    assert [one["version"] for one in said["predictions"]] == [7, 8]


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "message"),
    [
        (["C9=1"], None, 4, "'C9' is no feature (unknown_feature)"),
        (["nonsense"], None, 4, "'nonsense' is not a value of a row"),
        (['{"I1": '], None, 4, "the command line, line 1"),
        (["--file", "/no/such/file"], None, 4, "/no/such/file cannot be read"),
        ([], "", 4, "there are no rows in standard input"),
        ([], "user,item\n1,2\n", 4, "the model reads none of user, item; it reads I1, C1, tags"),
        (["--format", "json"], "[1]\n", 4, "a row must be a JSON object, but this is list"),
        (["--format", "criteo"], "a\tb\n", 4, "2 fields with tabs between, but 40 were expected"),
        (["--format", "csv"], "I1,C1\n1\n", 4, "line 2: 1 fields, but the first line names 2"),
        (["--format", "xml"], "a", 2, "'xml' is not a format"),
        (["I1=3", "--file", "x"], None, 2, "not both"),
        (["I1=3", "--model", "nothing", "--version", "3"], None, 0, ""),
    ],
)
def test_what_is_wrong_is_said(ask: Ask, arguments: list[str], stdin: str | None, code: int, message: str) -> None:
    result = ask(*arguments, stdin=stdin)
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [(400, "malformed", 4), (413, "too_large", 4), (404, "unknown_model", 8), (500, "internal", 7)],
)
def test_exit_codes_tell_whose_fault_it_is(
    double: PredictorDouble, ask: Ask, status: int, reason: str, code: int
) -> None:
    double.script.append(refuse(status, reason))
    result = ask("I1=3", "--json")
    assert result.exit_code == code
    assert json.loads(result.stdout)["error"]["message"] == f"no: {reason} ({reason})"


def test_nobody_there_is_exit_code_7() -> None:
    gone = PredictorDouble()
    gone.stop()
    result = CliRunner().invoke(app, ["predict", "I1=3", "--url", gone.url])
    assert result.exit_code == 7
    assert "cannot be reached" in result.stderr


@pytest.mark.parametrize("state", ["runs", "elsewhere"])
def test_without_an_address_the_suite_that_is_up_is_asked(
    state: str, double: PredictorDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = [] if state == "runs" else ["--state", state]
    with claimed(Path(state)):
        write_suite(Path(state), {"http": double.url, "phase": "serving", "components": []})
        result = CliRunner().invoke(app, ["predict", "I1=3", *named])
        measured = CliRunner().invoke(app, ["bench", "serve", "--requests", "1", "--json", *named])
    assert result.exit_code == 0, result.output
    assert sent(double)[0] == {"I1": "3"}
    assert measured.exit_code == 0, measured.output
    assert json.loads(measured.stdout)["requests"] == 1


def test_what_a_killed_suite_has_left_is_not_asked(tmp_path: Path) -> None:
    assert predictor_url(None, tmp_path / "none") == DEFAULT_URL
    with claimed(tmp_path):
        write_suite(tmp_path, {"phase": "training"})
        assert predictor_url(None, tmp_path) == DEFAULT_URL
        write_suite(tmp_path, {"http": "http://127.0.0.1:1", "phase": "serving"})
        assert predictor_url(None, tmp_path) == "http://127.0.0.1:1"
        assert predictor_url("http://10.0.0.5:8010", tmp_path) == "http://10.0.0.5:8010"
    write_suite(tmp_path, {"http": "http://127.0.0.1:1", "phase": "serving"})
    assert predictor_url(None, tmp_path) == DEFAULT_URL
