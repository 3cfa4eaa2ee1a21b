"""Messages of the exchange at the start of a run, in the order in which they are sent."""

from __future__ import annotations

import msgspec

from clickline.launch.hosts.data_view import DataView
from clickline.launch.hosts.host_messages import HostPlan


class HostAddress(msgspec.Struct, frozen=True, array_like=True):
    """An address of a host, and the network that it belongs to."""

    address: str
    network: str
    """With its prefix length, such as 10.0.0.0/8."""


class RankFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank says of itself; sent by each to all."""

    rank: int
    hostname: str
    addresses: list[HostAddress]
    clickline: str
    """Version of the package."""
    python: str
    command: str
    """What was started, without the program's name."""
    cores: list[int]
    """Numbers of those that it may use."""
    problem: str = ""
    """Why it cannot take part."""

    @property
    def node(self) -> tuple[str, ...]:
        """Identifies its host: two may have the same name."""
        return self.hostname, *(entry.address for entry in self.addresses)


class RankRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank is to prepare; sent by rank 0."""

    job: str
    root: str
    """Directory of jobs; a ~ is that of the rank's user."""
    first_port: int
    """First of the ports to be had; 0: any."""
    ports: int
    """How many it needs."""
    data: list[str] = []
    """Paths that it must see."""
    refused: bool = False
    """Nothing will be started, and rank 0 tells why."""


class RankOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank has prepared; sent by each to all."""

    directory: str = ""
    ports: list[int] = []
    data: DataView | None = None
    """What it sees of the data, if it is to read some."""
    problem: str = ""


class RankTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank is to run; sent by rank 0. It holds the token, and goes into no file."""

    plan: HostPlan | None = None
    """None: nothing will be started, and rank 0 tells why."""
    job: str = ""
    """The resolved job, as JSON."""
    archive: bytes = b""
    """Files for the directory of this rank; empty where ranks run where they were started."""
    address: str = ""
    port: int = 0
    """Where rank 0 is connected to."""
    patience: float = 60.0
    """Seconds for that."""
