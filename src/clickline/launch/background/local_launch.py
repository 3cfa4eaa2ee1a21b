"""A job with steps on this machine alone: its files in a directory of its own, as each host of a cluster has them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from clickline.config import Job
from clickline.config.run_location import is_elsewhere, local_path, run_directory_of
from clickline.errors import PeerError
from clickline.launch.hosts.host_messages import HostPlan
from clickline.launch.hosts.host_runner import LogFollower
from clickline.launch.hosts.node_work import NodeWork
from clickline.launch.hosts.plans.job_plan import with_steps
from clickline.launch.hosts.workspace_archive import packed, unpack
from clickline.launch.launchers import LaunchOptions
from clickline.launch.local.local_jobs import recorded
from clickline.launch.local.training_run import train_job

_LOOK_EVERY = 0.1


def launch_here(job: Job, options: LaunchOptions) -> dict[str, Any]:
    """Train it in `cluster.root`/JOB…; `output` is below `cluster.root`, unless it is absolute or a URL."""
    root = Path(job.cluster.root).expanduser().absolute()
    directory = root / options.job
    try:
        (directory / "log").mkdir(parents=True)
        unpack(packed(options.workspace), directory)
    except OSError as error:
        raise PeerError(f"nothing was started: {directory} cannot be made: {error}") from None
    if not is_elsewhere(job.output):
        job = job.model_copy(update={"output": str(root / local_path(job.output))})
    run_directory = run_directory_of(job).absolute()
    plan = HostPlan(
        job=options.job, node=0, directory=str(directory), job_file="", processes=[], output=str(run_directory)
    )
    (directory / "output").symlink_to(run_directory)
    os.chdir(directory)
    with recorded(job, run_directory, name=options.job):
        options.on_start()
        [plan] = with_steps([plan], options.steps)
        steps = _LoggedSteps(plan, options)
        steps.work.prepare()
        os.environ.update(options.steps.environment if options.steps else {})
        result = train_job(
            job,
            resume=options.resume,
            fresh=options.fresh,
            warm_start=None if options.resume else options.warm_start or None,
            watcher=options.watcher,
            checked=True,
        )
        steps.work.finish()
    return {"job": options.job, "host": "localhost", **result.to_dict()}


class _LoggedSteps:
    """The steps, with what scripts print for the watcher."""

    def __init__(self, plan: HostPlan, options: LaunchOptions) -> None:
        self._watcher = options.watcher
        self.work = NodeWork(plan, stopped=self._show)
        self._follower = LogFollower(self.work.logs)

    def _show(self) -> bool:
        time.sleep(_LOOK_EVERY)
        for lines in self._follower.news():
            for line in lines.text.splitlines():
                self._watcher.say(f"localhost {lines.process}: {line}")
        return False
