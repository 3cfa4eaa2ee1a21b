"""requirements.sh: what is missing is named before anything is made, with the line to type; for root it is installed.

That apt really installs it is for make_up.py, in a root of its own; here a stand-in writes down what apt is asked.
Python is the real one, with something taken away from it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.page_commands import ROOT

NOBODY = 65534
TOOLS = (
    "sh",
    "sed",
    "cat",
    "rm",
    "dirname",
    "mktemp",
    "uname",
    "grep",
    "head",
    "tail",
    "id",
    "env",
    "c++",
    "g++",
    "as",
    "ld",
)
"""Programs that the stand-in system has; not apt-get, nor a Python."""

OLD = "sys.version_info = (3, 9, 2, 'final', 0)"
NEW = "sys.version_info = (3, 14, 0, 'final', 0)"
WITHOUT_VENV = "sys.modules['ensurepip'] = None"
WITHOUT_HEADERS = "import sysconfig; sysconfig.get_path = lambda name: '/nowhere/include'"
SYSTEMS = (
    "sys.base_prefix = '/usr'; import os; os.path.realpath = lambda path: '/usr/bin/python%d.%d' % sys.version_info[:2]"
)
OTHERS = "sys.base_prefix = '/opt/python'"


class System:
    """A directory of programs that is all of PATH."""

    def __init__(self, directory: Path) -> None:
        self.programs = directory / "bin"
        self.programs.mkdir()
        self.calls = directory / "calls"
        self.calls.touch()
        directory.chmod(0o755)
        self.calls.chmod(0o666)
        for tool in TOOLS:
            if path := shutil.which(tool):
                (self.programs / tool).symlink_to(path)

    def add(self, name: str, script: str) -> None:
        path = self.programs / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def add_python(self, *changes: str, name: str = "python3") -> None:
        """The Python that runs this, changed before the script asks it anything."""
        changed = "; ".join(["import sys", *changes, "code, sys.argv = sys.argv[1], sys.argv[1:]", "exec(code)"])
        self.add(name, f'shift\nexec "{os.path.realpath(sys.executable)}" -c "{changed}" "$@"')

    def add_apt(self, then: str = "") -> None:
        self.add("apt-get", f'echo "$*" >> {self.calls}\n{then}')

    def run(self, *arguments: str, root: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
        self.add("id", f"echo {0 if root else NOBODY}")
        return subprocess.run(
            [str(self.programs / "sh"), str(ROOT / "requirements.sh"), *arguments],
            env={"PATH": str(self.programs), **environment},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def test_nothing_is_said_where_nothing_is_missing(system: System) -> None:
    system.add_python()
    system.add_apt()
    done = system.run(root=True)
    assert (done.returncode, done.stdout + done.stderr, system.calls.read_text()) == (0, "", "")


def test_who_is_not_root_is_told_the_one_line_to_type(system: System) -> None:
    system.add_python(SYSTEMS, WITHOUT_HEADERS, WITHOUT_VENV)
    system.add_apt()
    (system.programs / "c++").unlink()
    (system.programs / "g++").unlink()
    done = system.run()
    assert done.returncode == 1
    assert "/nowhere/include/Python.h" in done.stderr
    assert done.stderr.endswith("type: sudo apt-get install -y python3-dev python3-venv g++\n")
    assert system.calls.read_text() == ""


def test_root_has_it_installed_and_is_told_in_one_line(system: System) -> None:
    """The first try fails, as it does without lists of packages."""
    system.add_python(SYSTEMS, WITHOUT_HEADERS)
    whole = f'"{os.path.realpath(sys.executable)}"'
    installs = f"printf '#!/bin/sh\\nexec %s \"$@\"\\n' {whole} > {system.programs}/python3"
    fails = f"*install*) grep -q update {system.calls} || exit 100; {installs} ;;"
    system.add_apt(f'case "$*" in {fails} esac')
    done = system.run(root=True)
    assert (done.returncode, done.stderr) == (0, "requirements: installing python3-dev (apt-get, as root)\n")
    calls = [line.split("-o")[-1].split(maxsplit=1)[1] for line in system.calls.read_text().splitlines()]
    install = "install --no-install-recommends python3-dev"
    assert calls == [install, "update", install]


def test_an_installation_that_fails_shows_why(system: System) -> None:
    system.add_python(SYSTEMS, WITHOUT_VENV)
    system.add_apt("echo E: no route to the mirror; exit 100")
    done = system.run(root=True)
    assert done.returncode == 1
    assert "E: no route to the mirror" in done.stderr
    assert done.stderr.endswith("type: apt-get update && apt-get install -y python3-venv\n")


def test_a_system_without_apt_is_told_what_is_needed(system: System) -> None:
    (system.programs / "c++").unlink()
    (system.programs / "g++").unlink()
    done = system.run(root=True)
    assert done.returncode == 1
    assert "missing: Python 3.11 or later (before 3.14) with venv and C headers, a C++20 compiler" in done.stderr
    assert "apt-get" not in done.stderr


@pytest.mark.parametrize(("change", "version"), [(OLD, "3.9.2"), (NEW, "3.14.0")])
def test_a_python_that_does_not_fit_is_named_with_its_version(system: System, change: str, version: str) -> None:
    system.add_python(SYSTEMS, change)
    system.add_apt()
    done = system.run(root=True)
    assert done.returncode == 1
    assert f"{system.programs}/python3 is Python {version}; needed is Python 3.11 or later (before 3.14)" in done.stderr
    assert done.stderr.endswith("type: make PYTHON=/path/to/python\n")
    assert system.calls.read_text() == ""


def test_another_python_that_fits_is_suggested(system: System) -> None:
    system.add_python(OLD)
    system.add_python(name="python3.12")
    assert system.run().stderr.endswith("type: make PYTHON=python3.12\n")
    system.add_python(OLD, name="mine")
    assert f"{system.programs}/mine is Python 3.9.2" in system.run("mine").stderr


def test_a_python_of_ones_own_is_not_mended_by_packages(system: System) -> None:
    system.add_python(OTHERS, WITHOUT_HEADERS, name="mine")
    system.add_apt()
    done = system.run("mine", root=True)
    assert done.returncode == 1
    assert "is not the system's and lacks /nowhere/include/Python.h; type: make PYTHON=/usr/bin/python3" in done.stderr
    assert system.calls.read_text() == ""


@pytest.mark.parametrize("python", ["absent", "false", "true"])
def test_a_python_that_is_none_is_named(system: System, python: str) -> None:
    for tool in ("false", "true"):
        (system.programs / tool).symlink_to(shutil.which(tool) or "")
    done = system.run(python, root=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert python in done.stderr


def test_a_compiler_that_is_too_old_is_named_with_its_version(system: System) -> None:
    system.add_python()
    system.add(
        "old++", 'case $1 in --version) echo old++ 4.8 ;; *) echo "error: unrecognized -std=c++20" >&2; exit 1 ;; esac'
    )
    done = system.run(CXX="old++")
    assert done.returncode == 1
    assert "old++ (old++ 4.8) does not compile C++20" in done.stderr
    assert "error: unrecognized -std=c++20" in done.stderr


def test_make_stops_before_anything_is_made(system: System, tmp_path: Path) -> None:
    make = shutil.which("make")
    assert make
    system.add_python(OLD)
    tree = tmp_path / "tree"
    (tree / "native").mkdir(parents=True)
    for name in ("Makefile", "requirements.sh", "pyproject.toml", "constraints.txt", "CMakeLists.txt"):
        shutil.copy(ROOT / name, tree)
    done = subprocess.run(
        [make, "up"], cwd=tree, env={"PATH": str(system.programs)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "is Python 3.9.2" in done.stderr
    assert not (tree / ".venv").exists()
