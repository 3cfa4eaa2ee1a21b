"""How long commands take that compute nothing: --help, status, versions list, validate.

    python benchmarks/startup.py [--times 9]

Prints the median of each, the least, and what is wanted on a quiet machine. Each is called once before, so that there
is bytecode of all it imports, as in an installed package. What a command imports is shown by
`python -X importtime -m clickline …`; a test holds that none of them loads PyTorch.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

COMMAND = (sys.executable, "-m", "clickline")


@dataclass(frozen=True)
class Measured:
    """A command, and the seconds that it should take."""

    arguments: tuple[str, ...]
    wanted: float
    exit_code: int = 0


def commands(directory: Path) -> list[Measured]:
    """What is measured. The directory gets what the commands look at."""
    subprocess.run(
        [*COMMAND, "data", "criteo", "--rows", "2000", "--ids", "30000", "--out", str(directory / "log.tsv")],
        check=True,
        cwd=directory,
        capture_output=True,
    )
    (directory / "versions").mkdir()
    (directory / "run").mkdir()
    (directory / "run" / "status.json").write_text('{"job": "demo", "phase": "finished", "time": 0}\n')
    return [
        Measured(("--help",), 0.3),
        Measured(("status", "run"), 0.3),
        Measured(("versions", "list", "versions"), 0.3),
        Measured(("validate", "log.job.yaml"), 0.5),
    ]


def seconds_of(measured: Measured, *, directory: Path) -> float:
    """One call."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(directory / "bytecode")
    began = time.perf_counter()
    done = subprocess.run(
        [*COMMAND, *measured.arguments], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    took = time.perf_counter() - began
    if done.returncode != measured.exit_code:
        raise SystemExit(f"clickline {' '.join(measured.arguments)} failed: {done.stderr}")
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=9, help="calls of each command")
    times = parser.parse_args().times
    print(f"{'command':<28}{'median s':>10}{'least s':>10}{'wanted s':>10}")
    with tempfile.TemporaryDirectory() as name:
        for measured in commands(Path(name)):
            seconds_of(measured, directory=Path(name))
            took = [seconds_of(measured, directory=Path(name)) for _ in range(times)]
            text = f"clickline {' '.join(measured.arguments)}"
            print(f"{text:<28}{statistics.median(took):>10.2f}{min(took):>10.2f}{measured.wanted:>10.2f}", flush=True)


if __name__ == "__main__":
    main()
