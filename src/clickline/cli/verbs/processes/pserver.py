"""`clickline pserver`: own its share of the tables and answer trainers."""

from __future__ import annotations

from clickline.cli.shared.output import JobFile, Overrides
from clickline.cli.shared.roles import job_reader, run_role


def pserver(job: JobFile, overrides: Overrides = None) -> None:
    """Run one parameter server of a job; the environment says which, and where the others are.

    docs/reference/environment.md has the variables. `clickline train` starts all processes of a job on one machine.

    Example: clickline pserver job.yaml
    """
    run_role("pserver", job_reader(job, overrides))
