"""`clickline coordinator`: membership, pieces of data, barriers and checkpoints."""

from __future__ import annotations

from clickline.cli.output import JobFile, Overrides
from clickline.cli.roles import run_role


def coordinator(job: JobFile, overrides: Overrides = None) -> None:
    """Run the coordinator of a job on its own; without one, pserver 0 is the coordinator too.

    docs/reference/environment.md has the variables. `clickline train` starts all processes of a job on one machine.

    Example: clickline coordinator job.yaml
    """
    run_role("coordinator", job, overrides or [])
