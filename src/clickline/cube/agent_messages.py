"""What transfer, agents and cube servers say to each other: commands, replies, the state of a server.

    POST /agent/command               one of the commands below → AgentReply
    GET  /agent/server?name=NAME      AgentReply with `server`: what the cube server reports of itself

All of them are JSON, and their shapes are these structs: transfer encodes what the agent decodes. A reply is judged by
its code, never by its message.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta, Struct

COMMAND_PATH = "/agent/command"
SERVER_PATH = "/agent/server"
VersionNumber = Annotated[int, Meta(ge=0, le=2**63 - 1)]
SwitchNumber = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Shard = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class AgentCommand(Struct, frozen=True, kw_only=True, tag_field="command"):
    """One version of one shard of a dictionary, which the agent is to do something with."""

    name: str
    """Name of the dictionary."""
    shard: Shard
    version: VersionNumber
    base: VersionNumber
    """The base of its chain; the version itself if it is a base."""
    deploy_path: str = ""
    """Directory of the deployment; empty: the one that the agent was started with."""
    server_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """Port of the cube server, for an agent that was started without its address."""

    @property
    def verb(self) -> str:
        """The command's name on the wire, such as `roll_back`."""
        return str(self.__struct_config__.tag)


class DownloadCommand(AgentCommand, frozen=True, kw_only=True, tag="download"):
    """Fetch a version's file from `source`."""

    source: str
    sha256: str = ""
    """Empty: the hashes that lie beside the source are used."""


class LoadCommand(AgentCommand, frozen=True, kw_only=True, tag="load"):
    """Make the server load a downloaded version."""


class SwitchCommand(AgentCommand, frozen=True, kw_only=True, tag="switch"):
    """Make the server serve a loaded version."""

    number: SwitchNumber = 0
    """Number of the switch; 0: the next one."""
    peers: tuple[str, ...] | None = None
    """Addresses of the other servers of the shard; None: as before."""


class RollBackCommand(AgentCommand, frozen=True, kw_only=True, tag="roll_back"):
    """A switch that need not wait for a command that is running."""

    number: SwitchNumber = 0
    peers: tuple[str, ...] | None = None


class CheckCommand(AgentCommand, frozen=True, kw_only=True, tag="check"):
    """Compare a version's file with its hash; the reply has `file`."""


class DropCommand(AgentCommand, frozen=True, kw_only=True, tag="drop"):
    """Make the server drop a version from memory; its files stay."""


class RemoveCommand(AgentCommand, frozen=True, kw_only=True, tag="remove"):
    """Make the server drop a version, and delete its files."""


AnyAgentCommand = (
    DownloadCommand | LoadCommand | SwitchCommand | RollBackCommand | CheckCommand | DropCommand | RemoveCommand
)


class AgentReplyCode(Enum):
    """How a command ended."""

    DONE = "done"
    INVALID = "invalid"
    """The command cannot be meant: a bad name, a path outside of the deployment."""
    BUSY = "busy"
    """Another command for the same dictionary and shard is running."""
    DAMAGED = "damaged"
    """All of a file came, and its hash is not the expected one: the source should be checked."""
    FAILED = "failed"


class FileCheck(Struct, frozen=True):
    """Result of `CheckCommand`."""

    loaded: bool
    in_service: bool
    bytes: int
    sha256: str


class CubeServerStatus(Struct, frozen=True, kw_only=True):
    """What a cube server reports of itself."""

    name: str = ""
    shard: int = 0
    shards: int = 1
    version: int = 0
    """The version in service; 0: none."""
    number: int = 0
    """Number of the switch to it."""
    noted: int = 0
    """The version that was switched to last, be it served yet or not."""
    loaded: tuple[int, ...] = ()
    complete: tuple[int, ...] = ()
    """Versions on disk that lack nothing."""
    problems: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    time: float = 0.0
    readers: int = 0
    """Connections of readers, about: one that belongs to another agent may be among them for a moment."""


class AgentReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent's reply."""

    code: AgentReplyCode
    message: str = ""
    """What went wrong, for people."""
    file: FileCheck | None = None
    server: CubeServerStatus | None = None
