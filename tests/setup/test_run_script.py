"""tests/run.sh: what it starts ends with it, with or without a terminal. Make and Python are stand-ins that wait."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.eventually import eventually
from support.page_commands import ROOT
from support.suites.suite_processes import lives

WAITS = """#!/bin/sh
sleep 600 &
echo $$ $! > {pids}.new && mv {pids}.new {pids}
wait
"""

STOPS_AT_CTRL_C = f"""#!{sys.executable}
import os, signal, subprocess
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored in the background, and set by pytest too
child = subprocess.Popen(["sleep", "600"])
open("{{pids}}.new", "w").write(f"{{{{os.getpid()}}}} {{{{child.pid}}}}")
os.rename("{{pids}}.new", "{{pids}}")
signal.pause()
"""


class Run:
    """The script, in a session of its own that has no terminal."""

    def __init__(self, tree: Path, *, make: str, python: str) -> None:
        self._programs = {"make": make, "python": python}
        (tree / "tests").mkdir()
        (tree / "bin").mkdir()
        shutil.copy(ROOT / "tests" / "run.sh", tree / "tests")
        for name, script in self._programs.items():
            (tree / "bin" / name).write_text(script.format(pids=tree / name))
            (tree / "bin" / name).chmod(0o755)
        self.tree = tree
        self.process = subprocess.Popen(
            ["sh", "tests/run.sh", str(tree / "bin" / "python")],
            cwd=tree,
            env={**os.environ, "PATH": f"{tree / 'bin'}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def pids(self, *programs: str) -> list[int]:
        """Of the stand-ins and of what they have started, once they have."""
        files = [self.tree / name for name in programs]
        eventually(lambda: all(file.exists() for file in files), what="the stand-ins started")
        return [int(pid) for file in files for pid in file.read_text().split()]

    def end(self) -> None:
        """Whatever the script has left."""
        for file in (self.tree / name for name in self._programs):
            for pid in file.read_text().split() if file.exists() else ():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[Run]]:
    started: list[Run] = []
    yield started
    for run in started:
        run.end()


@pytest.mark.parametrize(
    ("number", "code", "python"),
    [(signal.SIGTERM, 143, STOPS_AT_CTRL_C), (signal.SIGINT, 130, STOPS_AT_CTRL_C), (signal.SIGTERM, 143, WAITS)],
    ids=["SIGTERM", "SIGINT", "SIGTERM, and what it started ignores Ctrl+C"],
)
def test_nothing_is_left_of_a_run_that_is_stopped(
    tmp_path: Path, runs: list[Run], number: signal.Signals, code: int, python: str
) -> None:
    run = Run(tmp_path, make=WAITS, python=python)
    runs.append(run)
    pids = run.pids("make", "python")
    run.process.send_signal(number)
    out, err = run.process.communicate(timeout=60)
    assert (run.process.returncode, out, err) == (code, "", "")
    eventually(lambda: not any(map(lives, pids)), what="all of it gone")


def test_nothing_is_left_of_native_tests_where_the_others_fail(tmp_path: Path, runs: list[Run]) -> None:
    fails = "#!/bin/sh\nwhile ! [ -e {pids}/../make ]; do sleep 0.05; done; exit 3\n".replace(
        "{pids}/..", str(tmp_path)
    )
    run = Run(tmp_path, make=WAITS, python=fails)
    runs.append(run)
    pids = run.pids("make")
    out, err = run.process.communicate(timeout=60)
    assert (run.process.returncode, out, err) == (3, "", "")
    eventually(lambda: not any(map(lives, pids)), what="all of it gone")


def test_native_tests_are_told_of_at_the_end(tmp_path: Path, runs: list[Run]) -> None:
    run = Run(tmp_path, make="#!/bin/sh\necho native: $BUILD_NICE\n", python="#!/bin/sh\necho tests: $2\n")
    runs.append(run)
    out, err = run.process.communicate(timeout=60)
    assert (run.process.returncode, out, err) == (0, "tests: pytest\nnative: 10\n", "")


def test_native_tests_that_fail_are_a_failure(tmp_path: Path, runs: list[Run]) -> None:
    run = Run(tmp_path, make="#!/bin/sh\necho overflow; exit 2\n", python="#!/bin/sh\n")
    runs.append(run)
    out, _err = run.process.communicate(timeout=60)
    assert (run.process.returncode, out) == (1, "overflow\n")
