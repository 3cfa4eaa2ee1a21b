"""Verbs that run one process of a job: its job and environment are read, its log is set up, signals stop it cleanly."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clickline.compat.paddle_environment.communicator_flags import Flags
    from clickline.config.loading.reader import Draft
    from clickline.ps.process_role import ProcessRole

log = logging.getLogger("clickline.launch")
RUNNERS = {
    "pserver": "clickline.ps.entrypoints:run_pserver",
    "trainer": "clickline.ps.entrypoints:run_trainer",
    "coordinator": "clickline.ps.coordinator.coordinator_run:run_coordinator",
}
"""The function that each role runs: it takes the job, the process's role, and the options that its verb has."""


def run_role(role: str | None, read: Callable[[list[str]], Draft], **options: Any) -> None:
    """Run one process of a job, until it is done or told to stop.

    `read` gives the job under overrides that are weaker than those of the command line; a role that is None is that of
    the environment; `options` are the role's own.
    """
    from clickline.compat.paddle_environment.communicator_flags import Flags, paddle_flags
    from clickline.launch.environment import read_role
    from clickline.processes.child import launched, stopped_by_signals
    from clickline.processes.logs import set_up
    from clickline.processes.open_files import raise_open_file_limit
    from clickline.train.run_files.own_code import use_own_code
    from clickline.train.run_storage.run_copy import code_directory

    with stopped_by_signals():
        process = read_role(role)
        set_up(process.role, process.rank)
        raise_open_file_limit()
        # A job that our launcher hands on has the flags in it, and --set on top of them.
        flags = Flags([], {}) if launched() else paddle_flags()
        for line in flags.report().splitlines():
            log.warning(line)
        draft = read([*flags.overrides, *process.overrides])
        # Servers that do not lead the run may have its options, and not its directory.
        leads = process.role == "coordinator" or process.hosts_coordinator
        if launched() or (options.get("resume") and leads):
            use_own_code(code_directory(draft.loaded.job, of_url=not launched()))
        if not launched():
            _check(draft, process, flags)
        _runner(process.role)(draft.loaded.job, process.within(draft.loaded.job), **options)


def job_reader(job: str, overrides: list[str] | None) -> Callable[[list[str]], Draft]:
    """Reads a job file for `run_role`."""
    from clickline.config.loading.reader import read_draft

    return lambda weaker: read_draft(job, overrides=[*weaker, *(overrides or [])])


def _check(draft: Draft, process: ProcessRole, flags: Flags) -> None:
    """Refuse a job with problems before this process takes its part; a server reads no data and looks for none."""
    from clickline.train.preflight import EVERYTHING, check_draft

    reads_data = process.role != "pserver" or process.hosts_coordinator
    checked = check_draft(draft, look_for=EVERYTHING if reads_data else ("model",), training=reads_data)
    if process.role == "coordinator" or process.hosts_coordinator:  # one process tells it for all
        for notice in checked.notices:
            log.warning("%s", flags.name_in(notice))


def _runner(role: str) -> Callable[..., object]:
    module, _, name = RUNNERS[role].partition(":")
    function: Callable[..., object] = getattr(import_module(module), name)
    return function
