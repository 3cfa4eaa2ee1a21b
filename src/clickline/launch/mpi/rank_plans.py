"""What each rank runs, with addresses, ports and threads: servers and trainers, or ranks of torch.distributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from clickline.config import Job
from clickline.launch.hosts.host_messages import HostPlan
from clickline.launch.hosts.plans import job_plan
from clickline.launch.hosts.plans.job_placement import JobPlacement
from clickline.launch.mpi.rank_messages import RankOffer
from clickline.launch.mpi.rank_roles import RankRole, threads_of

_JOB_FILE = "job.yaml"


@dataclass(frozen=True, kw_only=True)
class RankPlanner:
    """Makes the plans of a job. All processes run where their rank was started: relative paths mean what they say."""

    job: Job
    """With as many servers and trainers as the roles have."""
    name: str
    """Identifies the job."""
    token: str
    run_directory: Path
    arguments: Sequence[str]
    """Of the process that leads the run: how it begins."""

    def plans(self, roles: Sequence[RankRole], offers: Sequence[RankOffer]) -> list[HostPlan]:
        """The plan of each rank. The first port that rank 0 offers is not used here."""
        threads = [threads_of(self.job.cluster, role, roles) for role in roles]
        placement = JobPlacement(
            name=self.name,
            token=self.token,
            hosts=[role.host for role in roles],
            ports=[offer.ports[rank == 0 :] for rank, offer in enumerate(offers)],
            directories=[offer.directory for offer in offers],
            run_directory=str(self.run_directory),
            # What mpirun has passed on would be of one process.
            environment={"CLICKLINE_METRICS": "", "CLICKLINE_BIND": "", "CLICKLINE_ROLE": ""},
            threads=threads,
            arguments=self.arguments,
        )
        plans = job_plan.plan_job(self.job, placement)
        return [_in_place(plan, threads=count) for plan, count in zip(plans, threads, strict=True)]


def _in_place(plan: HostPlan, *, threads: int) -> HostPlan:
    own = {"CLICKLINE_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    processes = [
        msgspec.structs.replace(process, environment={**process.environment, **own})
        if process.role == "trainer"
        else process
        for process in plan.processes
    ]
    job_file = str(Path(plan.directory) / _JOB_FILE)
    return msgspec.structs.replace(plan, processes=processes, job_file=job_file, in_place=True)
