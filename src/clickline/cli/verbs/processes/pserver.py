"""`clickline pserver`: own its share of the tables and answer trainers."""

from __future__ import annotations

from clickline.cli.shared.beginning_options import Fresh, Resume, ResumeFrom, WarmStart
from clickline.cli.shared.output import JobFile, Overrides
from clickline.cli.shared.roles import job_reader, run_role


def pserver(
    job: JobFile,
    overrides: Overrides = None,
    resume: Resume = False,
    resume_from: ResumeFrom = None,
    fresh: Fresh = False,
    warm_start: WarmStart = None,
) -> None:
    """Run one parameter server of a job; the environment says which, and where the others are.

    How the run begins is for server 0 where it is the coordinator too; the others take no notice of it. A run that was
    not finished is taken up where its coordinator stood, without any option.

    docs/reference/environment.md has the variables. `clickline train` starts all processes of a job on one machine.

    Example: clickline pserver job.yaml
    """
    read = job_reader(job, overrides)
    run_role("pserver", read, resume=resume_from or resume, fresh=fresh, warm_start=warm_start)
