"""Where the processes of one start of a job run, and what all its plans have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clickline.config import Job
from clickline.config.hosts import Host
from clickline.launch.hosts.host_messages import HostPlan, PlannedProcess

_GRACE = 5.0


def grace_of(job: Job) -> float:
    """Seconds that a process has to end when it is asked to: it may write a last checkpoint in them."""
    return 2 * job.checkpoint.interrupt_timeout + _GRACE


@dataclass(frozen=True, kw_only=True)
class JobPlacement:
    """The hosts of a job, and what its launcher has found and made on them."""

    name: str
    """Identifies the job."""
    token: str
    hosts: Sequence[Host]
    """Entries may share a machine, as ranks of MPI do."""
    ports: Sequence[Sequence[int]]
    """Free on each host, as many as `ports_wanted` says; the first is the coordinator's, or the store's of rank 0."""
    directories: Sequence[str]
    """The job's, on each host."""
    run_directory: str
    """That of checkpoints and results, on the first host."""
    workspaces: Sequence[str] = ()
    """Directories that the processes run in, where these are not the job's."""
    environment: Mapping[str, str] = field(default_factory=dict)
    threads: Sequence[int] = ()
    """Of each rank of a host, 0 to leave it to the rank; without any, the job's."""
    arguments: Sequence[str] = ()
    """Of the process that leads the run: how it begins."""
    at_checkpoints: Sequence[str] = ()
    """What the first host runs when a checkpoint is there."""

    def host_plan(
        self, job: Job, node: int, processes: list[PlannedProcess], environment: Mapping[str, str], *, restarts: int
    ) -> HostPlan:
        """What one host runs. `environment` is that of this kind of run; what all runs have is added."""
        machines = list(dict.fromkeys(host.reached_at for host in self.hosts))
        return HostPlan(
            job=self.name,
            node=node,
            directory=self.directories[node],
            job_file="job.yaml",
            processes=processes,
            workspace=self.workspaces[node] if self.workspaces else "",
            at_checkpoints=list(self.at_checkpoints) if node == 0 else [],
            output=self.run_directory if node == 0 else "",
            environment={
                **self.environment,
                **environment,
                "CLICKLINE_TOKEN": self.token,
                "CLICKLINE_DIRECTORY": self.run_directory,
                "CLICKLINE_NODE": str(machines.index(self.hosts[node].reached_at)),  # what tells data apart
            },
            restarts=restarts,
            silence=2 * job.cluster.evict_after,
            grace=grace_of(job),
        )
