"""The shapes of suite.json and of a suite's health: what they hold, key by key.

Every key may be missing: the file may be of an `up` that has only begun, or of another release.
"""

from __future__ import annotations

from typing import TypedDict


class ComponentRecord(TypedDict, total=False):
    """One process of a suite."""

    name: str
    role: str
    rank: int
    state: str
    pid: int | None
    birth: int
    restarts: int
    deaths: int
    since: float
    reason: str
    address: str
    log: str
    shard: int
    """Of a cube server, as `replica`."""
    replica: int


class CubeRecord(TypedDict):
    """The cube of a suite."""

    name: str
    servers: list[list[str]]
    """Addresses, by shard and replica."""


class SupervisorRecord(TypedDict, total=False):
    """The process that looks after a suite: which one it is, and since when."""

    pid: int
    birth: int
    boot: str
    started: float


class SuiteRecord(SupervisorRecord, total=False):
    """What suite.json holds."""

    phase: str
    http: str | None
    model: str
    store: str
    token_file: str
    files: str | None
    transfer: str | None
    cube: CubeRecord
    sockets: str | None
    components: list[ComponentRecord]


class ComponentHealth(ComponentRecord, total=False):
    """One process of a suite, and how it is."""

    health: str
    """`well`, or what is wrong."""
    version: int | None
    """The version that it serves, if it serves one."""


class SuiteHealth(SupervisorRecord, total=False):
    """What `clickline status --json` prints of a suite: suite.json and what its components answer."""

    phase: str
    http: str | None
    model: str
    store: str
    token_file: str
    files: str | None
    transfer: str | None
    cube: CubeRecord
    sockets: str | None
    components: list[ComponentHealth]
    up: bool
    """Whether its supervisor lives."""
    version: int | None
    """The version in service."""
    rolling: int | None
    """The version under way."""
    problem: str
    """What transfer complains about."""
    complaints: list[str]
    well: bool
