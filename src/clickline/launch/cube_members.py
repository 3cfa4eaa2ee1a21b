"""The servers of a cube on this machine, their agents, and the file by which transfer and readers learn of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from clickline.cube.layouts.layout import Layout, Replica
from clickline.cube.layouts.layouts_file import write_layouts
from clickline.errors import PeerError
from clickline.launch.process_files import ProcessFiles
from clickline.launch.suite_description import SuiteDescription
from clickline.processes.process import Spec
from clickline.processes.supervisor import Supervisor


@dataclass(frozen=True)
class MemberPlace:
    """What a cube server and its agent hold: a replica of a shard of a layout."""

    epoch: int
    shard: int
    replica: int


class CubeMembers:
    """Members of all layouts. Their ranks are never used twice, so that no file of one is taken for that of another."""

    def __init__(
        self,
        files: ProcessFiles,
        supervisor: Supervisor,
        *,
        sockets: Path,
        spec: Callable[[str, int, list[str], str], Spec],
        description: SuiteDescription,
    ) -> None:
        """`sockets`: where servers listen. `spec` describes a process by role, rank, command and what it stands in
        for."""
        self._files, self._supervisor = files, supervisor
        self._sockets, self._spec, self._description = sockets, spec, description
        self.file = files.directory / "layouts.json"
        """The file of layouts."""
        self.places: dict[int, MemberPlace] = {}
        """Of the servers and agents that there are, by rank."""
        self._shards_of: dict[int, int] = {}
        """Numbers of shards, by epoch."""
        self._next_rank = 0
        self._published: tuple[Layout, ...] = ()
        """What is in the file of layouts."""

    @property
    def epoch(self) -> int:
        """That of the newest layout that transfer and readers know of; 0: none yet."""
        return self._published[-1].epoch if self._published else 0

    @property
    def servers(self) -> list[list[str]]:
        """Addresses by shard of the newest layout, for `Cube.connect`."""
        return self._published[-1].servers if self._published else []

    def start(self, *, epoch: int, shards: int, replicas: range) -> list[int]:
        """Start the servers and agents of these replicas of each shard of a layout; gives their ranks."""
        first, self._next_rank = self._next_rank, self._next_rank + shards * len(replicas)
        members = [MemberPlace(epoch, shard, replica) for shard in range(shards) for replica in replicas]
        self._shards_of[epoch] = shards
        for rank, place in enumerate(members, first):
            # A ready file of an earlier process of this name would be taken for that of this one.
            for role in ("cube", "agent"):
                self._files.ready(role, rank).unlink(missing_ok=True)
            if self._published:  # an earlier cube of this directory may have had such a rank, for another shard
                shutil.rmtree(self._deploy(rank), ignore_errors=True)
            self.places[rank] = place
        # All are started before any is waited for, so that they load their code side by side.
        ranks = list(range(first, first + len(members)))
        for rank in ranks:
            self._supervisor.add(self._cube_spec(rank))
            self._supervisor.add(self._agent_spec(rank))
        return ranks

    def are_ready(self, ranks: list[int]) -> bool:
        """Whether these servers and agents listen."""
        return all(self._files.ready(role, rank).exists() for role in ("cube", "agent") for rank in ranks)

    def ranks_of(self, epoch: int) -> list[int]:
        return [rank for rank, place in self.places.items() if place.epoch == epoch]

    def layout(self, epoch: int, *, without: Collection[int] = ()) -> Layout:
        """A layout of servers that run; `without` some ranks."""
        shards: list[list[Replica]] = [[] for _ in range(self._shards_of[epoch])]
        for rank in self.ranks_of(epoch):
            if rank not in without:
                member = Replica(self._agent(rank), self.address(rank), str(self._deploy(rank)))
                shards[self.places[rank].shard].append(member)
        return Layout(epoch, tuple(tuple(replicas) for replicas in shards))

    def publish(self, *epochs: int, without: Collection[int] = ()) -> None:
        """Tell transfer and readers which layouts there are, the newest last; all of their agents listen."""
        # Kept as it is told: `servers` is asked for while further members are starting, whose addresses nobody knows.
        layouts = tuple(self.layout(epoch, without=without) for epoch in epochs)
        write_layouts(self.file, layouts)
        self._published = layouts

    def stop(self, ranks: list[int]) -> None:
        """Stop servers and agents that no layout has any more, and remove their files."""
        self._supervisor.remove({f"{role}.{rank}" for role in ("cube", "agent") for rank in ranks})
        for rank in ranks:
            del self.places[rank]
            shutil.rmtree(self._deploy(rank), ignore_errors=True)

    def address(self, rank: int) -> str:
        """Where a cube server listens."""
        return f"unix:{self._sockets}/cube.{rank}.sock"

    def _cube_spec(self, rank: int) -> Spec:
        place = self.places[rank]
        command = self._description.cube_server(
            str(self._deploy(rank)),
            shard=place.shard,
            shards=self._shards_of[place.epoch],
            listen=self.address(rank),
            http="127.0.0.1:0",
        )
        return self._spec("cube", rank, command, f"cube shard {place.shard} of layout {place.epoch}")

    def _agent_spec(self, rank: int) -> Spec:
        command = self._description.agent(str(self._deploy(rank)), cube=self.address(rank), listen="127.0.0.1:0")
        return self._spec("agent", rank, command, "")

    def _deploy(self, rank: int) -> Path:
        return self._files.directory / f"cube.{rank}"

    def _agent(self, rank: int) -> str:
        address = self._files.address("agent", rank)
        if not address:
            raise PeerError(f"agent.{rank} does not listen yet")
        return address
