"""What transfer must not forget: what is in service, what is being rolled out and how far, which switch was the last.

Kept in one file, replaced as a whole after each step; a transfer that is killed at any of them resumes from there.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from clickline.cube.builder.version_source import ChainLink
from clickline.errors import VersionError
from clickline.files.json_state import read_state, write_state
from clickline.files.typed_json import convert_json

FILE = "transfer.json"
_HISTORY = 200
Seconds = Annotated[float, Meta(gt=-1e12, lt=1e12)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Phase(Enum):
    """How far a rollout is."""

    CREATED = "created"
    DOWNLOADING = "downloading"
    LOADING = "loading"
    SWITCHING = "switching"
    FINISHED = "finished"

    @classmethod
    def _missing_(cls, value: object) -> Phase | None:
        return _FORMER_NAMES.get(value) if isinstance(value, str) else None


_FORMER_NAMES = {
    "Trigging": Phase.CREATED,
    "Downloading": Phase.DOWNLOADING,
    "Reloading": Phase.LOADING,
    "Enabling": Phase.SWITCHING,
    "Finished": Phase.FINISHED,
}
"""Names in files of earlier releases, which had Cube's: a transfer that is upgraded resumes its rollout."""
ROLLING = (Phase.DOWNLOADING, Phase.LOADING, Phase.SWITCHING)
"""Phases of a rollout that has begun and is not over."""


class Deployment(Struct, kw_only=True):
    """One version that is being rolled out, or was."""

    chain: Annotated[list[ChainLink], Meta(min_length=1)]
    """From its base to itself."""
    phase: Phase = Phase.CREATED
    number: Number = 0
    """Number of its switch; 0 before it has one."""
    create_time: Seconds = msgspec.field(default_factory=time.time)
    finish_time: Seconds = 0.0
    behind: list[str] = msgspec.field(default_factory=list)
    """Names of the instances that it was finished without."""
    seconds: dict[Phase, Seconds] = msgspec.field(default_factory=dict)
    """When each phase began, since `create_time`."""

    @property
    def link(self) -> ChainLink:
        return self.chain[-1]

    @property
    def version(self) -> int:
        return self.link.version

    def enter(self, phase: Phase) -> None:
        self.phase = phase
        self.seconds[phase] = round(time.time() - self.create_time, 3)


class _LedgerFile(Struct, kw_only=True):
    """The contents of transfer.json."""

    number: Number
    current: Deployment | None
    rolling: Deployment | None
    past: list[Deployment]
    held: Number
    metas: dict[str, str]
    joined: list[Number] = msgspec.field(default_factory=list)


@dataclass
class Ledger:
    """What outlives transfer's process."""

    path: Path
    number: int = 0
    """Number of the last switch."""
    current: Deployment | None = None
    rolling: Deployment | None = None
    past: list[Deployment] = field(default_factory=list)
    """In the order in which they ended, the last one last; also those that were given up."""
    held: int = 0
    """The version that was rolled back from: not rolled out again until there is another."""
    metas: dict[str, str] = field(default_factory=dict)
    """JSON that other programs registered, by their keys."""
    joined: list[int] = field(default_factory=list)
    """Epochs of the layouts that serve, and take part in rollouts."""

    @classmethod
    def read(cls, directory: Path) -> Ledger:
        path = directory / FILE
        state = read_state(path)
        if state is None:
            return cls(path)
        try:
            file = _parse(state)
        except (ValueError, OverflowError, RecursionError) as error:
            raise VersionError(f"{path}: damaged: {error!r:.200}; remove it to begin without what it knew") from None
        return cls(path, file.number, file.current, file.rolling, file.past, file.held, file.metas, file.joined)

    def save(self) -> None:
        file = _LedgerFile(
            number=self.number,
            current=self.current,
            rolling=self.rolling,
            past=self.past,
            held=self.held,
            metas=self.metas,
            joined=self.joined,
        )
        write_state(self.path, msgspec.to_builtins(file, str_keys=True))

    def end(self, deployment: Deployment) -> None:
        """Move a deployment that is finished, or given up, to the past."""
        deployment.finish_time = time.time()
        self.past = [*self.past, deployment][-_HISTORY:]

    def deployed(self, keep: int) -> list[Deployment]:
        """The last versions that were in service, each once, the newest last."""
        by_version: dict[int, Deployment] = {}
        finished = [deployment for deployment in self.past if deployment.phase is Phase.FINISHED]
        for deployment in [*finished, *([] if self.current is None else [self.current])]:
            by_version.pop(deployment.version, None)  # so that it comes last
            by_version[deployment.version] = deployment
        return list(by_version.values())[-keep:]


def _parse(state: dict[str, Any]) -> _LedgerFile:
    """Raises ValueError for anything that `save` did not write."""
    file = convert_json(state, _LedgerFile)
    # The rule of the rollout has no entry for other phases, so transfer would fail at every step.
    if file.rolling is not None and file.rolling.phase not in ROLLING:
        raise ValueError(f"a rollout in phase {file.rolling.phase.value}")
    file.metas = {key: json.dumps(json.loads(meta), allow_nan=False) for key, meta in file.metas.items()}
    msgspec.json.encode(file)  # refuses text that has no UTF-8, which could not be sent to anybody
    return file
