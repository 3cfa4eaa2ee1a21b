"""Processes are started, watched, started again and stopped; the first failure is told; nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clickline.errors import PeerError
from clickline.processes import supervisor as supervisor_module
from clickline.processes.supervisor import Spec, Supervisor
from support.eventually import eventually
from support.supervised_programs import (
    DIES_WITH_PARENT,
    HAS_A_CHILD,
    IGNORES_SIGTERM,
    SLEEPS,
    EventTexts,
    alive,
    exists,
    fails,
    finish,
    spec,
)

LAUNCHER = """
import sys, time
from pathlib import Path
from clickline.processes.child import stopped_by_signals
from clickline.processes.supervisor import Spec, Supervisor
logs, program = Path(sys.argv[1]), sys.argv[2]
specs = [Spec("trainer", i, [sys.executable, "-c", program], {}, logs / f"trainer.{i}.log") for i in range(2)]
with stopped_by_signals(), Supervisor(specs, restarts=0, on_event=print) as supervisor:
    print(*(state["pid"] for state in supervisor.states()), flush=True)
    supervisor.wait()
"""


@pytest.fixture
def events() -> EventTexts:
    return EventTexts()


@pytest.fixture
def supervisors() -> Iterator[list[Supervisor]]:
    """Whatever a test leaves running is stopped."""
    made: list[Supervisor] = []
    yield made
    for each in made:
        each.stop()


def pids(supervisor: Supervisor) -> list[int]:
    return [state["pid"] for state in supervisor.states() if state["pid"]]


def up(one: Spec) -> bool:
    return one.log.exists() and "up\n" in one.log.read_text(encoding="utf-8")


def test_all_run_until_they_are_done(tmp_path: Path, events: EventTexts) -> None:
    specs = [spec(tmp_path, "print('hello')", rank=rank) for rank in range(2)]
    with Supervisor(specs, restarts=0, on_event=events.append) as supervisor:
        supervisor.wait(["trainer"])
        assert [state["state"] for state in supervisor.states()] == ["done", "done"]
    first, second = specs[1].log.read_text(encoding="utf-8").splitlines()
    assert first.endswith("INFO launcher starts trainer.1")
    assert second == "hello"


def test_waiting_for_trainers_does_not_wait_for_servers(tmp_path: Path, events: EventTexts) -> None:
    specs = [spec(tmp_path, SLEEPS, role="pserver"), spec(tmp_path, "pass")]
    with Supervisor(specs, restarts=0, on_event=events.append, grace=2) as supervisor:
        supervisor.wait("trainer")
        server, trainer = supervisor.states()
        assert (server["state"], trainer["state"]) == ("running", "done")
        supervisor.stop("pserver")
        assert supervisor.states()[0]["state"] == "stopped"


def test_one_killed_is_started_again(tmp_path: Path, events: EventTexts) -> None:
    with Supervisor([spec(tmp_path, SLEEPS)], restarts=2, on_event=events.append, grace=2) as supervisor:
        (killed,) = pids(supervisor)
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: supervisor.states()[0]["restarts"] == 1, doing=supervisor.poll)
        (now,) = pids(supervisor)
        assert now != killed
        assert not exists(killed)
    assert "trainer.0 died, killed by SIGKILL (9); it is started again in 0.2 s, 1 of 2 times" in events
    assert f"trainer.0 is back as process {now}" in events
    assert not exists(now)


def test_pauses_grow(tmp_path: Path, events: EventTexts) -> None:
    with (
        pytest.raises(PeerError, match="started again 2 times"),
        Supervisor([spec(tmp_path, fails(1))], restarts=2, on_event=events.append) as supervisor,
    ):
        finish(supervisor)
    assert [event.partition("again in ")[2].partition(",")[0] for event in events if "again in" in event] == [
        "0.2 s",
        "0.4 s",
    ]


def test_too_many_deaths_stop_everything_and_tell_the_first_failure(tmp_path: Path, events: EventTexts) -> None:
    specs = [spec(tmp_path, SLEEPS, role="pserver"), spec(tmp_path, fails(139, says="about to crash"), rank=1)]
    with Supervisor(specs, restarts=1, on_event=events.append) as supervisor:
        left = pids(supervisor)
        with pytest.raises(PeerError) as failed:
            finish(supervisor)
        assert not any(exists(pid) for pid in left)
        assert [state["state"] for state in supervisor.states()] == ["stopped", "failed"]
        with pytest.raises(PeerError, match=r"trainer\.1 failed"):  # asked again, it says the same
            supervisor.poll()
    first, *rest = str(failed.value).splitlines()
    assert first == (
        "trainer.1 failed, exit code 139, which says killed by SIGSEGV (11), a crash in native code: memory that is "
        "not there, after it had been started again 1 time"
    )
    assert rest[-2:] == [f"last lines of {specs[1].log}:", "  about to crash"]


def test_the_last_lines_are_those_of_the_last_start(tmp_path: Path, events: EventTexts) -> None:
    one = spec(tmp_path, fails(1, says="this time"))
    one.log.parent.mkdir()
    one.log.write_text("another run\n", encoding="utf-8")
    with pytest.raises(PeerError) as failed, Supervisor([one], restarts=1, on_event=events.append) as supervisor:
        finish(supervisor)
    assert str(failed.value).count("this time") == 1
    assert "another run" not in str(failed.value)
    assert one.log.read_text(encoding="utf-8").startswith("another run\n")


def test_one_that_may_not_restart_ends_it_all(tmp_path: Path, events: EventTexts) -> None:
    specs = [spec(tmp_path, fails(1), restart=False), spec(tmp_path, SLEEPS, rank=1)]
    with (
        pytest.raises(PeerError, match=r"trainer\.0 failed, exit code 1"),
        Supervisor(specs, restarts=9, on_event=events.append) as supervisor,
    ):
        finish(supervisor)


@pytest.mark.parametrize("code", [2, 3, 4, 5, 6])
def test_what_would_only_fail_again_is_not_started_again(tmp_path: Path, events: EventTexts, code: int) -> None:
    with (
        pytest.raises(PeerError, match=f"trainer.0 failed, exit code {code}: "),
        Supervisor([spec(tmp_path, fails(code))], restarts=9, on_event=events.append) as supervisor,
    ):
        finish(supervisor)
    assert not any("again" in event for event in events)


def test_a_victim_is_not_named_instead_of_the_culprit(
    tmp_path: Path, events: EventTexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trainer fails because of the server, and is seen first."""
    seen = tmp_path / "seen"
    late = f"import pathlib, time\nwhile not pathlib.Path({str(seen)!r}).exists(): time.sleep(0.01)\n"
    late += fails(3, says="the true reason")
    specs = [spec(tmp_path, fails(7), restart=False), spec(tmp_path, late, role="pserver", restart=False)]
    sleep = time.sleep

    def settle(seconds: float) -> None:
        """The server fails while the supervisor, which has seen the trainer's end, waits for other ends."""
        if seconds == supervisor_module._SETTLE:
            seen.touch()
            eventually(lambda: not alive(server))
        else:
            sleep(seconds)

    with pytest.raises(PeerError) as failed, Supervisor(specs, restarts=0, on_event=events.append) as supervisor:
        server = pids(supervisor)[1]
        monkeypatch.setattr(supervisor_module.time, "sleep", settle)
        finish(supervisor)
    assert str(failed.value).startswith("pserver.0 failed, exit code 3: the job is wrong\n")
    assert "trainer.0, exit code 7" in str(failed.value)


def test_one_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path, events: EventTexts) -> None:
    stubborn = spec(tmp_path, IGNORES_SIGTERM)
    with Supervisor([stubborn], restarts=0, on_event=events.append, grace=1) as supervisor:
        eventually(lambda: up(stubborn))
        (pid,) = pids(supervisor)
        started = time.monotonic()
        supervisor.stop()
        assert time.monotonic() - started >= 1
    assert not exists(pid)
    assert events == ["trainer.0 did not stop within 1 s and is killed"]


def test_what_a_process_started_dies_with_it(tmp_path: Path, events: EventTexts) -> None:
    parent = spec(tmp_path, HAS_A_CHILD + fails(0))
    with Supervisor([parent], restarts=0, on_event=events.append) as supervisor:
        finish(supervisor)
        grandchild = int(parent.log.read_text(encoding="utf-8").partition("child ")[2].split()[0])
        eventually(lambda: not alive(grandchild))


def test_one_may_join_later_and_take_the_place_of_one_that_ended(tmp_path: Path, events: EventTexts) -> None:
    with Supervisor([spec(tmp_path, SLEEPS)], restarts=0, on_event=events.append, grace=2) as supervisor:
        supervisor.add(spec(tmp_path, "pass", rank=3))
        eventually(lambda: supervisor.states()[1]["state"] == "done", doing=supervisor.poll)
        supervisor.add(spec(tmp_path, SLEEPS, rank=3))
        assert [state["name"] for state in supervisor.states()] == ["trainer.0", "trainer.3"]
        with pytest.raises(PeerError, match=r"trainer\.0 cannot be added: there is one, and it is running"):
            supervisor.add(spec(tmp_path, SLEEPS))


def test_a_program_that_is_not_there_leaves_nothing_running(
    tmp_path: Path, events: EventTexts, supervisors: list[Supervisor]
) -> None:
    missing = Spec("trainer", 1, ["/no/such/program"], {}, tmp_path / "trainer.1.log")
    supervisor = Supervisor([spec(tmp_path, SLEEPS), missing], restarts=0, on_event=events.append)
    supervisors.append(supervisor)
    with pytest.raises(PeerError, match=r"trainer\.1 cannot be started: /no/such/program: No such file"):
        supervisor.start()
    assert pids(supervisor) == []


def test_an_exception_inside_stops_everything(tmp_path: Path, events: EventTexts) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        Supervisor([spec(tmp_path, SLEEPS)], restarts=0, on_event=events.append, grace=2) as supervisor,
    ):
        left = pids(supervisor)
        raise ZeroDivisionError
    assert not any(exists(pid) for pid in left)


def test_children_get_our_environment_and_theirs(
    tmp_path: Path, events: EventTexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "1")
    program = "import os; print(os.environ['OURS'], os.environ['THEIRS'], os.getsid(0) == os.getpid())"
    one = Spec("trainer", 0, [sys.executable, "-c", program], {"THEIRS": "2"}, tmp_path / "trainer.0.log")
    with Supervisor([one], restarts=0, on_event=events.append) as supervisor:
        finish(supervisor)
    assert one.log.read_text(encoding="utf-8").splitlines()[-1] == "1 2 True"


def launcher(directory: Path, program: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A launcher as a process of its own, and its children."""
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(directory), program], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    children = [int(word) for word in process.stdout.readline().split()]
    for rank in range(2):
        eventually(lambda rank=rank: "up" in (directory / f"trainer.{rank}.log").read_text(encoding="utf-8"))
    return process, children


def test_children_die_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    process, children = launcher(tmp_path, DIES_WITH_PARENT)
    with process:
        assert all(alive(pid) for pid in children)
        process.kill()
        eventually(lambda: not any(alive(pid) for pid in children))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_launcher_that_is_told_to_stop_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    process, children = launcher(tmp_path, SLEEPS)
    with process:
        process.send_signal(number)
        process.wait(60)
        assert process.returncode != 0
    assert not any(exists(pid) for pid in children)


def test_a_child_started_when_its_launcher_was_gone_does_not_stay() -> None:
    environment = {**os.environ, "CLICKLINE_LAUNCHER": "999999999"}
    gone = subprocess.run(
        [sys.executable, "-c", DIES_WITH_PARENT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (gone.returncode, gone.stderr) == (1, "the launcher, process 999999999, is gone\n")


@pytest.mark.parametrize("role", ["trainer", "pserver"])
def test_one_that_was_replaced_is_neither_started_again_nor_a_failure(
    tmp_path: Path, events: EventTexts, role: str
) -> None:
    """Somebody else has its name: to start it again would make two of them, over and over."""
    specs = [spec(tmp_path, fails(9), role=role), spec(tmp_path, "pass", rank=1)]
    with Supervisor(specs, restarts=9, on_event=events.append) as supervisor:
        finish(supervisor)
        states = {state["name"]: (state["state"], state["restarts"]) for state in supervisor.states()}
    assert states == {f"{role}.0": ("replaced", 0), "trainer.1": ("done", 0)}
    assert [event for event in events if "was replaced by a process" in event]
