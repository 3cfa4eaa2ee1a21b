"""The shapes of suite.json and of a suite's health: what they hold, key by key.

Every key may be missing: the file may be of an `up` that has only begun, or of another release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from clickline.launch.cube_members import MemberPlace
from clickline.launch.process_files import ProcessFiles
from clickline.launch.scaling.scale_file import ScaleRecord
from clickline.processes.process import ProcessState
from clickline.processes.process_identity import birth
from clickline.processes.supervisor import Supervisor


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
    """Of a cube server, as `replica` and `layout`."""
    replica: int
    layout: int


def component_records(
    supervisor: Supervisor, files: ProcessFiles, *, places: Mapping[int, MemberPlace]
) -> list[ComponentRecord]:
    """What suite.json says of the processes. `places`: of the cube's servers, by rank."""
    return [_component_record(process, files, places) for process in supervisor.states()]


def _component_record(process: ProcessState, files: ProcessFiles, places: Mapping[int, MemberPlace]) -> ComponentRecord:
    role, rank = process["role"], process["rank"]
    component: ComponentRecord = {
        "name": process["name"],
        "role": role,
        "rank": rank,
        "state": process["state"],
        "pid": process["pid"],
        "birth": birth(process["pid"]),
        "restarts": process["restarts"],
        "deaths": process["deaths"],
        "since": round(process["since"], 3),
        "reason": process["reason"],
        "address": files.address(role, rank),
        "log": str(files.log(role, rank)),
    }
    if role == "cube" and rank in places:
        place = places[rank]
        component["shard"], component["replica"], component["layout"] = place.shard, place.replica, place.epoch
    return component


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
    workers: int
    scale: ScaleRecord | None
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
    workers: int
    scale: ScaleRecord | None
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
