"""`clickline up --once` from the wheel: built here, installed into an empty environment, run outside the checkout.

    make test-wheel-up

Before it, the workspace packaged for PaddleRec runs, by the module `paddlerec` of an extra. It fails if a command does,
if anything but the wheel is used, or if the predictor's AUC is not the trainer's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

_SAME_AUC = 0.001
_SHIM = "./shims/paddlerec"


def main() -> None:
    constraints = Path("constraints.txt").absolute()
    with tempfile.TemporaryDirectory(prefix="clickline-wheel-") as scratch:
        here = Path(scratch)
        wheels = here / "wheels"
        _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", wheels, ".")
        _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", wheels, _SHIM)
        (wheel,) = wheels.glob("clickline-*.whl")
        (shim,) = wheels.glob("clickline_paddlerec-*.whl")
        began = time.monotonic()
        venv.create(here / "venv", with_pip=True)
        programs = here / "venv" / "bin"
        _run(programs / "python", "-m", "pip", "install", "--quiet", "--no-compile", "-c", constraints, wheel)
        if _run(programs / "python", "-c", "import importlib.util as u; print(u.find_spec('paddlerec'))") != "None\n":
            sys.exit("the wheel: it takes the name paddlerec, which is an extra's")
        _run(programs / "python", "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps", shim)
        os.chdir(here)
        package = _run(programs / "python", "-c", "import clickline; print(clickline.__path__[0])").strip()
        if not Path(package).is_relative_to(here):
            sys.exit(f"the wheel: {package} was imported, which is not in the empty environment {here}")
        _run_packaged_workspace(programs)
        report = json.loads(_run(programs / "clickline", "up", "--once", "--json"))
    trainer, server = report["trained_auc"], report["served"]["auc"]
    if abs(trainer - server) > _SAME_AUC:
        sys.exit(f"the wheel: test AUC {server} through the server, {trainer} by the trainer")
    took = time.monotonic() - began
    print(f"the wheel: installed, trained and served in {took:.0f} s, test AUC {server:.4f} through the server")


def _run_packaged_workspace(programs: Path) -> None:
    """PaddleRec's first example, from the wheel, by the command that it had, which an extra brings."""
    quick = ["dataset[0].batch_size=20", "runner[0].epochs=1", "hyper_parameters.fc_sizes=[8]"]
    command = ["-m", "paddlerec.models.rank.dnn", "--json", "-o", *quick]
    trained, tested = json.loads(_run(programs / "python", "-m", "paddlerec.run", *command))
    if trained["saved"] != ["increment_dnn/0"] or not 0 < tested["figures"]["0"]["auc"] <= 1:
        sys.exit(f"the wheel: the packaged workspace left {trained} and {tested}")


def _run(*command: str | Path) -> str:
    """What a command prints to its standard output."""
    print("+", *command, flush=True)
    # Nothing of this environment: no PYTHONPATH, no settings of the checkout.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CLICKLINE_"))}
    done = subprocess.run(
        [*map(str, command)], stdout=subprocess.PIPE, text=True, env={**kept, "VIRTUAL_ENV": ""}, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nended with code {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


if __name__ == "__main__":
    main()
