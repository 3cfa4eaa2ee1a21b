"""One suite for one state directory: who is up, who may not be, and what is done about one that was killed."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clickline.errors import PeerError
from clickline.launch import suite_state
from clickline.launch.suite_state import (
    LOCK,
    claimed,
    clear,
    is_up,
    read_suite,
    stop,
    write_suite,
    write_token,
)
from clickline.processes.process_identity import birth, boot_id
from support.processes import run

HOLD = """
import signal, sys, time
from pathlib import Path
from clickline.processes.child import stopped_by_signals
from clickline.launch.suite_state import claimed, supervisor_record, write_suite
with stopped_by_signals(), claimed(Path(sys.argv[1])):
    if "unknown" not in sys.argv:
        write_suite(Path(sys.argv[1]), {**supervisor_record(started=0), "phase": "serving", "components": []})
    if "stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("up", flush=True)
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        pass
"""


@contextmanager
def another(state: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has claimed the directory."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, state, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_directory_has_one_suite(tmp_path: Path) -> None:
    assert not is_up(tmp_path)
    with another(tmp_path) as process:
        assert is_up(tmp_path)
        with (
            pytest.raises(PeerError, match=rf"up in .* already, process {process.pid}; .*clickline down"),
            claimed(tmp_path),
        ):
            pass
        assert stop(tmp_path, seconds=30)
        assert process.wait(30) == 0
    assert not is_up(tmp_path)
    assert read_suite(tmp_path) is None
    with claimed(tmp_path):
        assert is_up(tmp_path)
    assert not is_up(tmp_path)


def test_one_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    with another(tmp_path, "stubborn") as process:
        assert not stop(tmp_path, seconds=0.2)
        assert process.wait(30) == -signal.SIGKILL
    assert not is_up(tmp_path)


def stranger_in(state: Path, stranger: int, **changed: object) -> None:
    """A file of a suite whose supervisor's number has been given to another process."""
    facts = {"pid": stranger, "birth": birth(stranger) - 1, "boot": boot_id(), "started": 0.0, "phase": "serving"}
    write_suite(state, {**facts, "components": [], **changed})


def test_two_who_ask_do_not_take_each_other_for_a_suite(tmp_path: Path) -> None:
    with claimed(tmp_path):
        pass
    with (tmp_path / LOCK).open("r+b") as asker:
        fcntl.flock(asker, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as `status` does, for an instant
        assert not is_up(tmp_path)
    with claimed(tmp_path):
        assert is_up(tmp_path)
        assert is_up(tmp_path)


def test_a_stranger_with_the_supervisors_number_gets_no_signal_from_one_who_asks_meanwhile(tmp_path: Path) -> None:
    """The supervisor was killed, its number is another's, and somebody asks for the status in the same instant."""
    with claimed(tmp_path):
        pass
    with sleeper() as stranger, (tmp_path / LOCK).open("r+b") as asker:
        stranger_in(tmp_path, stranger.pid)
        fcntl.flock(asker, fcntl.LOCK_SH)
        down = run("down", tmp_path, "--wait", "1")
        assert (down.returncode, "no suite is up" in down.stdout or "cleared" in down.stdout) == (0, True), down.stderr
        assert stranger.poll() is None


@pytest.mark.parametrize(
    "changed", [{}, {"birth": None}, {"boot": "another run of the machine", "birth": 0}], ids=["number", "none", "boot"]
)
def test_a_stranger_gets_no_signal_while_another_suite_begins(tmp_path: Path, changed: dict[str, object]) -> None:
    """A new `up` has the lock, and the file is still of the one that was killed."""
    with sleeper() as stranger, another(tmp_path, "unknown") as process:
        own = {"birth": birth(stranger.pid)} if "boot" in changed else {}
        stranger_in(tmp_path, stranger.pid, **{**changed, **own})
        down = run("down", tmp_path, "--wait", "1")
        assert (down.returncode, "try again" in down.stderr) == (7, True), down.stderr
        assert stranger.poll() is None
        assert process.poll() is None


def test_a_suite_that_has_just_begun_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the lock and says who it is only after whoever wants to stop it has looked three times."""
    looks = 0
    is_up_really = suite_state.is_up

    def looked(state: Path) -> bool:
        nonlocal looks
        looks += 1
        if looks == 3:
            write_suite(state, noted)
        return is_up_really(state)

    with sleeper() as stranger, another(tmp_path, "unknown") as process:
        stranger_in(tmp_path, stranger.pid)
        noted = {"pid": process.pid, "birth": birth(process.pid), "boot": boot_id(), "components": []}
        monkeypatch.setattr(suite_state, "is_up", looked)
        assert stop(tmp_path, seconds=30)
        assert looks == 3
        assert process.wait(30) == 0
        assert stranger.poll() is None


def test_what_a_killed_one_leaves_is_cleared_away(tmp_path: Path) -> None:
    sockets = Path(tempfile.mkdtemp(prefix="clickline-"))
    with sleeper() as left, sleeper() as stranger, another(tmp_path) as process:
        facts = {
            "pid": process.pid,
            "boot": boot_id(),
            "sockets": str(sockets),
            "components": [
                {"name": "cube.0", "pid": left.pid, "birth": birth(left.pid)},
                {"name": "cube.1", "pid": stranger.pid, "birth": birth(stranger.pid) + 1},  # a number given anew
                {"name": "cube.2", "pid": None, "birth": 0},
            ],
        }
        write_suite(tmp_path, facts)
        write_token(tmp_path, "secret")
        assert clear(tmp_path) == []  # it is up
        process.kill()
        process.wait()
        assert clear(tmp_path) == [f"cube.0, process {left.pid}", f"sockets in {sockets}"]
        assert left.wait(10) == -signal.SIGKILL
        assert stranger.poll() is None
    assert not sockets.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".suite.lock"]
    assert clear(tmp_path) == []


def test_nothing_but_sockets_is_removed_whatever_the_file_says(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    write_suite(tmp_path, {"pid": 1, "sockets": str(precious), "components": [{"pid": 1, "birth": 1}]})
    assert clear(tmp_path) == []
    assert precious.is_dir()


def test_the_token_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = write_token(tmp_path, "secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with claimed(tmp_path):
        write_suite(tmp_path, {"pid": os.getpid()})
        write_token(tmp_path, "another")
        assert "another" not in (tmp_path / "suite.json").read_text()
    assert not file.exists()


@pytest.mark.parametrize("content", ["", "[]", "{", "null"])
def test_a_damaged_file_is_said_to_be_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "suite.json").write_text(content)
    with pytest.raises(PeerError, match=r"suite\.json"):
        read_suite(tmp_path)
    with claimed(tmp_path):
        assert read_suite(tmp_path) is None
        write_suite(tmp_path, {"pid": 5})
        assert json.loads((tmp_path / "suite.json").read_text()) == {"pid": 5}
