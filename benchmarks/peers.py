"""The peers: other people's tools, installed apart from ours and run in processes of their own.

Their virtual environments are made at first use, from the versions pinned beside this file: .bench/peers, and
.bench/peers-paddle for PaddlePaddle, which wants an older numpy. Each script in benchmarks/peers/ prints one line of
JSON as its last; all else that it prints is only shown when it fails. CLICKLINE_PEERS=DIRECTORY and
CLICKLINE_PEERS_PADDLE=DIRECTORY name other places: what is there already is used as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rounds import console

HERE = Path(__file__).parent
BENCH = HERE.parent / ".bench"
POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")
SHOWN = 2000
"""Characters of a failed peer's output that are worth reading."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for this process alone: two benchmarks at once must not write over each other."""
    BENCH.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=BENCH, prefix="scratch-") as directory:
        yield Path(directory)


class PeerError(Exception):
    """A peer could not be installed or did not finish."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment of peers, and how it is made."""

    name: str
    variable: str
    """What names another directory than .bench/NAME."""
    size: str

    @property
    def requirements(self) -> Path:
        return HERE / f"{self.name}-requirements.txt"


PEERS = Environment("peers", variable="CLICKLINE_PEERS", size="1.5 GB")
PADDLE = Environment("peers-paddle", variable="CLICKLINE_PEERS_PADDLE", size="0.7 GB")


def peers_python(environment: Environment = PEERS) -> Path:
    """The interpreter that has the peers of an environment; installs them if need be."""
    given = os.environ.get(environment.variable)
    home = Path(given) if given else BENCH / environment.name
    python = home / "bin" / "python"
    mark = home / "installed.txt"
    wanted = environment.requirements.read_text(encoding="utf-8")
    if given and home.exists():  # never cleared: it may be anybody's
        if not python.exists():
            raise PeerError(
                f"{environment.variable} is {given!r}, but there is no {python}; unset it to install the peers anew"
            )
        return python
    if not mark.exists() or mark.read_text(encoding="utf-8") != wanted:
        console.print(f"installing {environment.name} into {home} (once, about {environment.size})", highlight=False)
        venv.create(home, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
        output_of([*pip, "-r", str(environment.requirements)])
        mark.write_text(wanted, encoding="utf-8")
    return python


def run_peer(
    script: str, *arguments: object, threads: int | None = None, environment: Environment = PEERS
) -> dict[str, Any]:
    """Run benchmarks/peers/SCRIPT.py and give back what it prints as JSON. `threads` limits the usual thread pools."""
    path = HERE / "peers" / f"{script}.py"
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.py")))
        raise PeerError(f"no peer script {script!r}; known: {known}")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if threads is not None:
        variables |= dict.fromkeys(POOLS, str(threads))
    command = [str(peers_python(environment)), str(path), *map(str, arguments)]
    return _last_line(output_of(command, variables=variables))


def run_own(script: str, *arguments: object) -> dict[str, Any]:
    """The same for a script of ours that needs a process of its own: benchmarks/SCRIPT.py, with this interpreter."""
    return _last_line(output_of([sys.executable, str(HERE / f"{script}.py"), *map(str, arguments)]))


def output_of(command: list[str], *, variables: dict[str, str] | None = None) -> str:
    """What a command prints; PeerError with the end of what it complained about if it fails."""
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-SHOWN:]
        raise PeerError(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
    return done.stdout


def _last_line(output: str) -> dict[str, Any]:
    last = output.strip().rsplit("\n", 1)[-1]
    try:
        facts: dict[str, Any] = json.loads(last)
    except ValueError as error:
        raise PeerError(f"the last line of a benchmark process should be JSON but is {last!r}") from error
    return facts
