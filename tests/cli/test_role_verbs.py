"""`clickline pserver`, `trainer`, `coordinator`: job and environment are read, SIGTERM stops cleanly."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.cli.shared import roles
from clickline.processes import child
from clickline.processes.supervisor import Spec, Supervisor
from support.doubles import role_doubles
from support.eventually import eventually
from support.supervised_programs import EventTexts

ENVIRONMENT = {
    "CLICKLINE_TOKEN": "0123456789abcdef",
    "CLICKLINE_PSERVERS": "tcp:127.0.0.1:6174,tcp:127.0.0.1:6175",
    "CLICKLINE_COORDINATOR": "tcp:127.0.0.1:7000",
    "CLICKLINE_RANK": "1",
}
PROGRAM = """
from clickline.cli import main
from clickline.cli.shared import roles
roles.RUNNERS["pserver"] = "support.doubles.role_doubles:wait"
main()
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "job.yaml"
    log = tmp_path / "log.tsv"
    log.write_bytes(b"1\n")
    text = f"name: a\noutput: /o\ndata: {{train: {log}}}\ncluster: {{trainers: 3, agree: {{dense_every: 2}}}}\n"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    role_doubles.given.clear()
    role_doubles.options.clear()
    for role in roles.RUNNERS:
        monkeypatch.setitem(roles.RUNNERS, role, "support.doubles.role_doubles:remember")
    monkeypatch.setattr("clickline.processes.logs.set_up", lambda role, rank: None)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("doubled")
@pytest.mark.parametrize(
    ("role", "name"), [("pserver", "pserver.1"), ("trainer", "trainer.1"), ("coordinator", "coordinator.0")]
)
def test_each_gets_the_job_and_its_place(job: Path, role: str, name: str) -> None:
    result = CliRunner().invoke(app, [role, str(job), "--set", "seed=9"])
    assert (result.exit_code, result.output) == (0, "")
    ((got, place),) = role_doubles.given
    assert (place.name, place.directory, place.trainers) == (name, Path("/o/a"), 3)
    assert (got.seed, got.cluster.pservers, got.resolved_strategy) == (9, 2, "async")


@pytest.mark.usefixtures("doubled")
@pytest.mark.parametrize("role", ["coordinator", "pserver"])
def test_who_may_lead_a_run_is_told_where_to_begin(job: Path, role: str) -> None:
    for words in ([], ["--resume"], ["--resume-from", "/c"], ["--fresh"], ["--warm-start", "/w"]):
        assert CliRunner().invoke(app, [role, str(job), *words]).exit_code == 0
    assert [(o["resume"], o["fresh"], o["warm_start"]) for o in role_doubles.options] == [
        (False, False, None),
        (True, False, None),
        ("/c", False, None),
        (False, True, None),
        (False, False, "/w"),
    ]


@pytest.mark.usefixtures("doubled")
def test_older_flags_are_stronger_than_the_file_and_weaker_than_set(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAGS_communicator_min_send_grad_num_before_recv", "20")
    monkeypatch.setenv("FLAGS_communicator_send_queue_size", "20")
    CliRunner().invoke(app, ["trainer", str(job), "--set", "cluster.agree.send_queue=7"])
    ((got, _),) = role_doubles.given
    assert (got.cluster.agree.dense_every, got.cluster.agree.send_queue) == (20, 7)


@pytest.mark.usefixtures("doubled")
def test_a_launcher_has_put_the_flags_into_the_job(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_launched", True)
    monkeypatch.setenv("FLAGS_communicator_min_send_grad_num_before_recv", "20")
    CliRunner().invoke(app, ["trainer", str(job)])
    assert role_doubles.given[0][0].cluster.agree.dense_every == 2


@pytest.mark.usefixtures("doubled")
def test_a_wrong_environment_exits_with_3(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLICKLINE_TOKEN")
    result = CliRunner().invoke(app, ["trainer", str(job)])
    assert result.exit_code == 3
    assert "CLICKLINE_TOKEN is not set" in result.stderr


@pytest.mark.usefixtures("doubled")
@pytest.mark.parametrize(
    ("role", "change", "message"),
    [
        ("pserver", "strategy=single", "2 parameter servers, but strategy single"),
        ("trainer", "strategy=collective", "2 parameter servers, but strategy collective"),
        ("coordinator", "data.test=gone.tsv", "data.test[0], --set: no such file"),
        ("trainer", "data.valid=gone.tsv", "data.valid[0], --set: no such file"),
        ("pserver", "model.params.foo=1", "model.params.foo, --set: unknown"),
    ],
)
def test_a_job_with_contradictions_is_refused_before_a_role_begins(
    job: Path, role: str, change: str, message: str
) -> None:
    result = CliRunner().invoke(app, [role, str(job), "--set", change])
    assert (result.exit_code in (3, 4, 5), message in result.stderr) == (True, True), result.output
    assert not role_doubles.given


@pytest.mark.usefixtures("doubled")
def test_a_server_needs_no_data_files(job: Path) -> None:
    assert CliRunner().invoke(app, ["pserver", str(job), "--set", "data.train=elsewhere.tsv"]).exit_code == 0


@pytest.mark.usefixtures("doubled")
def test_the_coordinator_alone_tells_which_keys_have_no_effect(job: Path, caplog: pytest.LogCaptureFixture) -> None:
    for role in ("trainer", "pserver", "coordinator"):
        assert CliRunner().invoke(app, [role, str(job), "--set", "train.staleness=1"]).exit_code == 0
    told = [record.getMessage() for record in caplog.records]
    assert told == ["train.staleness, --set: has no effect: only single or collective reads it, and this run is async"]


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return {**ENVIRONMENT, "PYTHONPATH": path}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_it_cleanly_and_the_log_has_one_format(job: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM, "pserver", str(job)]
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment(), "FLAGS_rpc_retry_times": "3"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        assert process.stderr is not None
        first, second = process.stderr.readline(), process.stderr.readline()
        process.send_signal(number)
        rest = process.stderr.read()
        assert process.wait(10) == 130
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}"
    assert re.fullmatch(rf"{stamp} WARNING pserver\.1 FLAGS_rpc_retry_times has no effect: .*\n", first)
    assert re.fullmatch(rf"{stamp} INFO pserver\.1 pserver\.1 runs a\n", second)
    assert re.fullmatch(rf"{stamp} INFO pserver\.1 cleaned up\ninterrupted\n", rest)


def test_under_a_supervisor_it_is_stopped_within_the_grace(job: Path, tmp_path: Path) -> None:
    log = tmp_path / "pserver.1.log"
    spec = Spec("pserver", 1, [sys.executable, "-c", PROGRAM, "pserver", str(job)], environment(), log)
    events = EventTexts()
    with Supervisor([spec], restarts=0, on_event=events.append, grace=10) as supervisor:
        eventually(lambda: "runs a" in log.read_text(encoding="utf-8"), doing=supervisor.poll)
        supervisor.stop()
        assert supervisor.states()[0]["state"] == "stopped"
    assert events == []
    assert "cleaned up" in log.read_text(encoding="utf-8")
