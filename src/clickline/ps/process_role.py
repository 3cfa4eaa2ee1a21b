"""The role of one process of a job: which one it is, where the others are, and where it listens itself.

`clickline.launch.environment` reads it from the environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from clickline.config import Job
from clickline.config.run_location import run_directory_of
from clickline.net.addresses import host_and_port, tcp


@dataclass(frozen=True, slots=True)
class ProcessRole:
    """A process's role, its rank among those of the same role, and the addresses of the others."""

    role: str
    """pserver, trainer or coordinator."""
    rank: int
    pservers: list[str]
    """Addresses, by rank."""
    trainers: int
    """How many trainers the job starts with; 0 where the environment does not say."""
    coordinator: str
    """Its address."""
    token: bytes = field(repr=False)
    bind: str
    """Address to listen on; empty for a trainer, which listens on none."""
    directory: Path
    """The run's directory; the current one where the environment does not say."""
    node: int = 0
    """Number of the node that it runs on."""
    threads: int = 0
    """For dense maths; 0 where the environment does not say."""
    launch: str = ""
    """What the launcher calls this start of the job; empty where the environment does not say."""
    hosts_coordinator: bool = False
    """Whether the coordinator is to run in this process: in pserver 0, if no coordinator is named."""

    @property
    def name(self) -> str:
        return f"{self.role}.{self.rank}"

    @property
    def coordinator_bind(self) -> str:
        """Address for the coordinator to listen on, in the process that runs it."""
        if self.role == "coordinator":
            return self.bind
        if self.bind.startswith("unix:") or self.coordinator.startswith("unix:"):
            return self.coordinator
        return tcp(host_and_port(self.bind)[0], host_and_port(self.coordinator)[1], source="the coordinator's address")

    @property
    def overrides(self) -> list[str]:
        """What the environment knows better than the job file, as for --set."""
        counts = [f"cluster.pservers={len(self.pservers)}"]
        if self.trainers:
            counts.append(f"cluster.trainers={self.trainers}")
        return counts

    def within(self, job: Job) -> ProcessRole:
        """The same role, completed by what only the job says."""
        has_directory = self.directory != Path()
        return replace(
            self,
            trainers=self.trainers or job.cluster.trainers,
            directory=self.directory if has_directory else run_directory_of(job),
        )
