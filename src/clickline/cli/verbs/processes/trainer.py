"""`clickline trainer`: read data and train, with rows from the parameter servers."""

from __future__ import annotations

from clickline.cli.shared.output import JobFile, Overrides
from clickline.cli.shared.roles import job_reader, run_role


def trainer(job: JobFile, overrides: Overrides = None) -> None:
    """Run one trainer of a job; the environment says which, and where the others are.

    docs/reference/environment.md has the variables. `clickline train` starts all processes of a job on one machine.

    Example: clickline trainer job.yaml
    """
    run_role("trainer", job_reader(job, overrides))
