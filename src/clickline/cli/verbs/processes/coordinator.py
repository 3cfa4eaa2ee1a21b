"""`clickline coordinator`: membership, pieces of data, barriers and checkpoints."""

from __future__ import annotations

from clickline.cli.shared.beginning_options import Fresh, Resume, ResumeFrom, WarmStart
from clickline.cli.shared.output import JobFile, Overrides
from clickline.cli.shared.roles import job_reader, run_role


def coordinator(
    job: JobFile,
    overrides: Overrides = None,
    resume: Resume = False,
    resume_from: ResumeFrom = None,
    fresh: Fresh = False,
    warm_start: WarmStart = None,
) -> None:
    """Run the coordinator of a job on its own; without one, pserver 0 is the coordinator too.

    A run that was not finished is taken up where its coordinator stood, without any option. With --resume it goes on
    from a checkpoint instead, by as many processes as there are now.

    docs/reference/environment.md has the variables. `clickline train` starts all processes of a job on one machine.

    Example: clickline coordinator job.yaml
    """
    read = job_reader(job, overrides)
    run_role("coordinator", read, resume=resume_from or resume, fresh=fresh, warm_start=warm_start)
