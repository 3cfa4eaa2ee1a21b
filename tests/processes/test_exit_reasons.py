"""How a process ended, in words that say what to look at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clickline.cli.application import EXIT_CODES
from clickline.errors import PeerError
from clickline.processes import exit_reasons
from clickline.processes.exit_reasons import MEANINGS, MemoryKills, in_words
from clickline.processes.supervisor import Supervisor
from support.supervised_programs import SLEEPS, spec


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exit code 0: done"),
        (3, "exit code 3: the job is wrong"),
        (7, "exit code 7: another process of the job cannot be reached, refuses us, or has failed"),
        (42, "exit code 42"),
        (134, "exit code 134, which says killed by SIGABRT (6), native code gave up; its last words are in the log"),
        (136, "exit code 136, which says killed by SIGFPE (8), a crash in native code: an impossible division"),
        (139, "exit code 139, which says killed by SIGSEGV (11), a crash in native code: memory that is not there"),
        (137, "exit code 137, which says killed by SIGKILL (9)"),
        (255, "exit code 255"),
        (-9, "killed by SIGKILL (9)"),
        (-15, "killed by SIGTERM (15)"),
        (-11, "killed by SIGSEGV (11), a crash in native code: memory that is not there"),
        (-60, "killed by signal (60)"),
    ],
)
def test_codes_in_words(code: int, words: str) -> None:
    assert in_words(code) == words


def test_the_codes_are_those_of_the_command_line() -> None:
    assert set(MEANINGS) == set(EXIT_CODES)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGKILL])
def test_real_signals_are_named(number: signal.Signals) -> None:
    program = f"import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), {number:d})"
    code = subprocess.run([sys.executable, "-c", program], check=False).returncode
    assert in_words(code).startswith(f"killed by {number.name} ({number:d})")


def test_a_kill_is_put_down_to_memory_only_while_the_count_rises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = tmp_path / "memory.events"
    count.write_text("low 0\noom 3\noom_kill 3\noom_group_kill 0\n", encoding="utf-8")
    kills = MemoryKills(files=[tmp_path / "missing", count])
    assert not kills.recent()
    count.write_text("low 0\noom 4\noom_kill 4\noom_group_kill 0\n", encoding="utf-8")
    assert kills.recent()
    monkeypatch.setattr(MemoryKills, "RECENT", 0.0)
    assert not kills.recent()


def test_a_process_killed_for_memory_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = tmp_path / "vmstat"
    count.write_text("oom_kill 0\n", encoding="utf-8")
    monkeypatch.setattr(exit_reasons, "_counters", lambda: [count])
    with (
        pytest.raises(PeerError, match=r"killed by SIGKILL \(9\): the machine or its container was out of memory"),
        Supervisor([spec(tmp_path, SLEEPS)], restarts=0, on_event=print) as supervisor,
    ):
        count.write_text("oom_kill 1\n", encoding="utf-8")
        os.kill(supervisor.states()[0]["pid"], signal.SIGKILL)
        supervisor.wait()
