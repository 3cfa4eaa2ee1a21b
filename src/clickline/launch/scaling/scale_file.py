"""What a suite is asked to become: STATE/suite/scale.json, written by `clickline scale`, read by the suite itself.

The file is the desired state and not a command: it is there until the suite is as it says, and whoever wrote it may be
gone. How far the suite is, is in `scale` of suite.json.
"""

from __future__ import annotations

import secrets
from enum import Enum
from pathlib import Path
from typing import Annotated, TypedDict

import msgspec
from msgspec import Meta, Struct

from clickline.files.atomic import replace_json
from clickline.files.typed_json import decode_json

MOST_SHARDS, MOST_REPLICAS = 64, 16
"""Of a cube on one machine."""
_FILE = "suite/scale.json"
_LIMIT = 4096


class ScalePhase(Enum):
    """How far a suite is on the way to a desired size."""

    STARTING = "starting"
    """Servers and agents are started."""
    DELIVERING = "delivering"
    """They get the version in service."""
    MOVING = "moving"
    """Readers leave the servers that are not needed any more."""
    RETIRING = "retiring"
    """Those servers are taken from transfer, and stopped."""
    DONE = "done"


class DesiredSize(Struct, frozen=True, kw_only=True):
    """The size that the cube should have."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    shards: Annotated[int, Meta(ge=1, le=MOST_SHARDS)]
    replicas: Annotated[int, Meta(ge=1, le=MOST_REPLICAS)]

    @classmethod
    def new(cls, *, shards: int, replicas: int) -> DesiredSize:
        return cls(id=secrets.token_hex(8), shards=shards, replicas=replicas)


class ScaleRecord(TypedDict):
    """`scale` of suite.json."""

    id: str
    """That of the desired size that is, or was last, worked towards; empty if there was none."""
    phase: str
    shards: int
    """Of the cube that is read from, as `replicas`."""
    replicas: int
    loaded: int
    """Servers of the new layout that have the version in service, of `servers`."""
    servers: int
    readers: int
    """Connections of readers to servers that are not needed any more."""


class ScaleFile:
    """The file of one state directory."""

    def __init__(self, state: Path) -> None:
        self._path = state / _FILE
        self._identity: tuple[int, int] | None = None
        self._desired: DesiredSize | None = None

    def clear(self) -> None:
        """Forget a desired size of an earlier suite."""
        self._path.unlink(missing_ok=True)

    def write(self, desired: DesiredSize) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_json(self._path, msgspec.to_builtins(desired))

    def read(self) -> DesiredSize | None:
        """The last desired size; None if there is none, or the file is not one."""
        try:
            file = self._path.stat()
            identity = (file.st_ino, file.st_mtime_ns)
            if identity != self._identity:
                self._desired = decode_json(self._path.read_bytes()[:_LIMIT], DesiredSize)
                self._identity = identity
        except (OSError, ValueError, RecursionError):
            return None
        return self._desired
