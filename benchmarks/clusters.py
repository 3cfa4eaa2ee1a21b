"""Clickline in many processes, for benchmarks: one run of `clickline train`, and what it measured of itself.

Rows per second are those of the last epoch, from the first lease to the last push of the slowest trainer, so starting
Python does not count; CPU seconds are of all processes, everything included.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clickline import Job
from peers import PeerError, scratch
from training import job_for

SHOWN = 2000


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    rows_per_second: float
    cpu_seconds: float
    rows: int
    test: dict[str, float]
    status: dict[str, Any]


def clustered(text: Path, *, strategy: str, batch: int, pservers: int, trainers: int, epochs: int) -> Job:
    """The benchmark's model and data, trained by so many processes."""
    settings = job_for(text).model_dump(mode="json")
    settings["strategy"] = strategy
    settings["train"] |= {"batch_size": batch, "epochs": epochs, "tensorboard": False, "average": 0.0}
    settings["checkpoint"]["every_epochs"] = 0
    settings["tables"]["embedding"]["restart_epochs"] = False
    settings["cluster"] |= {"pservers": pservers, "trainers": trainers}
    return Job.model_validate(settings)


def train(job: Job) -> Outcome:
    """Run it in a process of its own, so that what it leaves in memory does not weigh on the next one."""
    with scratch() as directory:
        file = directory / "job.json"
        wanted = job.model_copy(update={"name": "bench", "output": str(directory)})
        file.write_text(json.dumps(wanted.model_dump(mode="json")), encoding="utf-8")
        before = _children()
        command = [sys.executable, "-m", "clickline", "train", str(file), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
        if done.returncode != 0:
            raise PeerError(f"clickline train ended with {done.returncode}:\n{(done.stdout + done.stderr)[-SHOWN:]}")
        result = json.loads((directory / "bench" / "result.json").read_text(encoding="utf-8"))
        status = directory / "bench" / "status.json"
        last = result["epochs"][-1] if "epochs" in result else {"rows": result["rows"], "seconds": result["seconds"]}
        return Outcome(
            rows_per_second=last["rows"] / last["seconds"],
            cpu_seconds=_children() - before,
            rows=result["rows"],
            test=result["test"],
            status=json.loads(status.read_text(encoding="utf-8")) if status.exists() else {},
        )


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
