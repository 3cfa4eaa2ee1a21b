"""Goes on with a run once per failure point, in processes that die there, and again to its end; prints what came of it.

The run has checkpoints of steps 5, 10 and 15 and goes on from step 10, so that it replaces the one of step 15.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

import torch

from clickline import train_job
from clickline.config import Job
from clickline.errors import ClicklineError
from clickline.files import failpoints
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_inspection import difference


def main(settings: dict[str, Any]) -> None:
    torch.set_num_threads(1)

    def job(name: str, steps: int) -> Job:
        train = {**settings["train"], "max_steps": steps}
        return Job.model_validate({**settings, "name": name, "train": train})

    whole = checkpoint_files.read(train_job(job("whole", 25)).checkpoint)
    begun = train_job(job("begun", 15)).directory
    for point in failpoints.TRAINING:
        if point.startswith("standing."):
            continue
        directory = begun.with_name(point)
        shutil.copytree(begun, directory)
        child = os.fork()
        if child == 0:
            os.environ[failpoints.VARIABLE] = point
            train_job(job(point, 25), resume=directory / "checkpoints" / "step-0000000010")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        facts: dict[str, Any] = {"point": point, "signal": os.WTERMSIG(status)}
        try:
            result = train_job(job(point, 25), resume=True)
            found = checkpoint_files.find(directory / "checkpoints")
            for checkpoint in found:
                checkpoint_files.verify(checkpoint)
            facts["same"] = difference(checkpoint_files.read(result.checkpoint), whole)["same"]
            facts["steps"] = [checkpoint.step for checkpoint in found]
            facts["left"] = [path.name for path in directory.rglob(".*") if path.name != ".run.lock"]
        except ClicklineError as error:
            facts["error"] = str(error)
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
