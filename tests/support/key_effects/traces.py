"""Which keys the processes of a run read, by strategy: a real run of each, with every process traced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.key_effects.cells import overrides_of

FURTHER = (
    "cluster.transport=tcp",
    "features.slots[0].admission.count=2",
    "features.slots[0].eviction.min_score=0.01",
)
"""What a run needs beside the base job for some keys to be read at all."""
TRACING = Path(__file__).parent / "tracing"


def traced_run(base: Path, strategy: str, scratch: Path) -> dict[str, set[str]]:
    """Run the base job under a strategy; gives back the modules that read each key."""
    trace = scratch / "trace"
    trace.mkdir(parents=True)
    words = [*overrides_of("strategy", strategy, changed=False), f"output={scratch / 'runs'}", *FURTHER]
    command = [sys.executable, "-m", "clickline", "train", str(base)]
    command += [word for override in words for word in ("--set", override)]
    python_path = os.pathsep.join([str(TRACING), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": python_path, "KEY_TRACE": str(trace), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, cwd=base.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"the base job failed under {strategy}:\n{done.stderr}")
    readers: dict[str, set[str]] = {}
    for file in trace.iterdir():
        for line in file.read_text(encoding="utf-8").splitlines():
            path, _, module = line.partition("\t")
            readers.setdefault(path, set()).add(module.removeprefix("clickline."))
    return readers


def read_by(readers: dict[str, set[str]], key: str) -> str | None:
    """The modules that read a key.

    A part of the job that was copied, as features are into a schema, is known by the type it was reached from.
    """
    typed = {"slots[]": "Slot", "dense[]": "Dense", "early_stopping": "EarlyStopping", "agree": "StrategyOptions"}
    typed |= {"model": "ModelSettings", "checkpoint": "CheckpointSettings"}
    around, _, name = key.rpartition(".")
    last = around.rpartition(".")[2]
    inside_list = key.partition("[]")[0].rpartition(".")[2] + key[key.find("[]") :] if "[]" in key else key
    names = {key, f"{typed.get(last, last.capitalize())}.{name}", f"Features.{inside_list}"}
    found = set[str]().union(*(readers.get(name, ()) for name in names))
    return ", ".join(sorted(found)) if found else None
