"""What verbs of single processes share: job and environment are read, the log is set up, signals stop it cleanly."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any

RUNNERS = {
    "pserver": "clickline.train.cluster.processes:run_pserver",
    "trainer": "clickline.train.cluster.processes:run_trainer",
    "coordinator": "clickline.train.cluster.processes:run_coordinator",
}
"""What each role runs: a function of the job, the place, and the options that its verb has."""


def run_role(role: str, job: str, overrides: list[str], **options: Any) -> None:
    """Be one process of a job, until it is done or told to stop. `options` are the role's own."""
    from clickline.config.reading import read_job
    from clickline.launch.child import launched, stopped_by_signals
    from clickline.launch.environment import read_place
    from clickline.launch.flags import Flags, older_flags
    from clickline.launch.logs import set_up
    from clickline.launch.open_files import raise_open_file_limit

    with stopped_by_signals():
        place = read_place(role)
        set_up(role, place.rank)
        raise_open_file_limit()
        # A job that our launcher hands on has the flags in it, and --set on top of them.
        flags = Flags([], {}) if launched() else older_flags()
        for line in flags.report().splitlines():
            logging.getLogger("clickline.launch").warning(line)
        loaded = read_job(job, overrides=[*flags.overrides, *place.overrides, *overrides])
        _runner(role)(loaded.job, place.within(loaded.job), **options)


def _runner(role: str) -> Callable[..., object]:
    module, _, name = RUNNERS[role].partition(":")
    found: Callable[..., object] = getattr(import_module(module), name)
    return found
