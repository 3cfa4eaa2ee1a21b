"""The wheel beside the newest PyTorch that there is, in an environment of its own: it trains, publishes and serves.

    make test-wheel                      # the newest PyTorch for this system, with CUDA's packages: gigabytes
    TORCH="torch==2.6.0" make test-wheel # another one

It fails if a command does, or if a line has one of the words of NOISE, by which warnings of libraries are known.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
import venv
from pathlib import Path

NOISE = re.compile(r"warn|deprecat|leak|traceback|exception|nanobind|cuda|triton", flags=re.IGNORECASE)
READY = re.compile(r"ready at (http://\S+)")
ROW = json.dumps({"instances": [{"C1": "68fd1e64", "I1": 3}]}).encode()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="clickline-wheel-") as scratch:
        here = Path(scratch)
        (wheel,) = _build(here / "wheels")
        venv.create(here / "venv", with_pip=True)
        python = here / "venv" / "bin" / "python"
        _run(python, "-m", "pip", "install", "--quiet", "--no-compile", wheel, os.environ.get("TORCH", "torch"))
        torch = _run(python, "-c", "import torch; print(torch.__version__)").strip()
        os.chdir(here)
        clickline = here / "venv" / "bin" / "clickline"
        job = {"name": "wheel", "data": {"train": ["log.train.tsv"], "test": ["log.test.tsv"]}, "train": {"epochs": 1}}
        (here / "job.yaml").write_text(json.dumps(job), encoding="utf-8")
        said = _run(clickline, "data", "criteo", "--out", "log.tsv", "--rows", "20000", "--ids", "30000")
        for strategy in (["strategy=single"], ["strategy=async", "cluster.pservers=1", "cluster.trainers=1"]):
            sets = [word for change in [*strategy, f"name={strategy[0][9:]}"] for word in ("--set", change)]
            said += _run(clickline, "train", "job.yaml", *sets)
        said += _run(clickline, "publish", "runs/single", "--to", "versions")
        said += _serve(clickline)
    noise = [line for line in said.splitlines() if NOISE.search(line)]
    if noise:
        sys.exit("\n".join(["the wheel is not quiet:", *noise]))
    print(f"the wheel trains, publishes and serves beside PyTorch {torch}, without a warning")


def _build(directory: Path) -> list[Path]:
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", directory, ".")
    return list(directory.glob("*.whl"))


def _run(*command: str | Path) -> str:
    print("+", *command, flush=True)
    done = subprocess.run(
        [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nended with code {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


def _serve(clickline: Path) -> str:
    """Answer one request, then end on SIGTERM."""
    command = [str(clickline), "serve", "versions", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = ""
    try:
        assert process.stdout is not None
        for line in process.stdout:
            said += line
            if found := READY.search(line):
                with urllib.request.urlopen(f"{found[1]}/predict", data=ROW, timeout=30) as answer:  # noqa: S310
                    print(answer.read().decode())
                break
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    if process.returncode:
        sys.exit(f"{said}{rest}\nserve ended with code {process.returncode}")
    return said + rest


if __name__ == "__main__":
    main()
