"""What transfer must not forget: what is in service, what is being rolled out and how far, which switch was the last.

Kept in one file, replaced as a whole after each step; a transfer that is killed at any of them goes on from there.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clickline.cube.transfer.instance import PHASES
from clickline.cube.transfer.version_source import ChainLink
from clickline.errors import VersionError
from clickline.files.json_state import read_state, write_state

FILE = "transfer.json"
_HISTORY = 200
ROLLING = ("Downloading", "Reloading", "Enabling")
"""Phases of what is on its way."""


@dataclass
class Deployment:
    """One version on its way to the servers, or there."""

    chain: list[ChainLink]
    """From its base to itself."""
    phase: str = "Trigging"
    number: int = 0
    """Of its switch; 0 before it has one."""
    create_time: float = field(default_factory=time.time)
    finish_time: float = 0.0
    behind: list[str] = field(default_factory=list)
    """Instances that it went on without."""
    seconds: dict[str, float] = field(default_factory=dict)
    """When each phase began, since `create_time`."""

    @property
    def link(self) -> ChainLink:
        return self.chain[-1]

    @property
    def version(self) -> int:
        return self.link.version

    def enter(self, phase: str) -> None:
        self.phase = phase
        self.seconds[phase] = round(time.time() - self.create_time, 3)

    def to_state(self) -> dict[str, Any]:
        return {
            "chain": [link.to_dict() for link in self.chain],
            "phase": self.phase,
            "number": self.number,
            "create_time": self.create_time,
            "finish_time": self.finish_time,
            "behind": self.behind,
            "seconds": self.seconds,
        }

    @classmethod
    def from_state(cls, facts: dict[str, Any]) -> Deployment:
        """Raises TypeError, ValueError and their like for what `to_state` did not write."""
        found = cls(**{**facts, "chain": [ChainLink(**link) for link in facts["chain"]]})
        if not found.chain or found.phase not in PHASES:
            raise ValueError(f"a chain of {len(found.chain)}, phase {found.phase!r:.40}")
        numbers = [found.number, *(n for link in found.chain for n in (link.version, link.base, link.parent or 0))]
        if not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
            raise ValueError(f"numbers {numbers!r:.200}")
        times = [found.create_time, found.finish_time, *found.seconds.values()]
        if not all(type(when) in (int, float) and -1e12 < when < 1e12 for when in times):
            raise ValueError(f"times {times!r:.200}")
        texts = [t for link in found.chain for t in (link.id, link.key, link.input, link.digest)]
        for text in (*texts, *found.behind, *found.seconds):
            text.encode()
        return found

    def to_dict(self, *, name: str, output: str, metas: dict[str, str]) -> dict[str, Any]:
        """The older shape of a version; numbers are strings."""
        link = self.link
        return {
            "dict_name": name,
            "version": str(link.version),
            "depend": str(link.base),
            "id": link.id,
            "key": link.key,
            "mode": link.mode,
            "input": link.input,
            "output": output,
            "status": PHASES[self.phase],
            "status_str": self.phase,
            "finish_time": int(self.finish_time),
            "create_time": int(self.create_time),
            "meta_infos": metas,
            "switch": self.number,
            "behind": self.behind,
            "seconds": self.seconds,
        }


@dataclass
class Ledger:
    """All that is kept."""

    path: Path
    number: int = 0
    current: Deployment | None = None
    rolling: Deployment | None = None
    past: list[Deployment] = field(default_factory=list)
    """In the order in which they ended, the last one last; those that were given up, too."""
    held: int = 0
    """The version that somebody went back from: not rolled out again until there is another."""
    metas: dict[str, str] = field(default_factory=dict)
    """Registered from outside."""

    @classmethod
    def read(cls, directory: Path) -> Ledger:
        path = directory / FILE
        found = read_state(path)
        if found is None:
            return cls(path)
        try:
            rolling = _deployment(found["rolling"])
            if rolling is not None and rolling.phase not in ROLLING:
                raise ValueError(f"a rollout in phase {rolling.phase}")
            return cls(
                path,
                number=int(found["number"]),
                current=_deployment(found["current"]),
                rolling=rolling,
                past=[Deployment.from_state(one) for one in found["past"]],
                held=int(found["held"]),
                metas={key: json.dumps(json.loads(meta), allow_nan=False) for key, meta in found["metas"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise VersionError(f"{path}: damaged: {error!r:.200}; remove it to begin without what it knew") from None

    def save(self) -> None:
        write_state(
            self.path,
            {
                "number": self.number,
                "current": self.current and self.current.to_state(),
                "rolling": self.rolling and self.rolling.to_state(),
                "past": [one.to_state() for one in self.past],
                "held": self.held,
                "metas": self.metas,
            },
        )

    def end(self, deployment: Deployment) -> None:
        """It is finished, or given up."""
        deployment.finish_time = time.time()
        self.past = [*self.past, deployment][-_HISTORY:]

    def deployed(self, keep: int) -> list[Deployment]:
        """The last versions that were in service, each once, the newest last."""
        found: dict[int, Deployment] = {}
        for one in self.past:
            if one.phase == "Finished":
                found.pop(one.version, None)
                found[one.version] = one
        if self.current is not None:
            found.pop(self.current.version, None)
            found[self.current.version] = self.current
        return list(found.values())[-keep:]


def _deployment(facts: dict[str, Any] | None) -> Deployment | None:
    return None if facts is None else Deployment.from_state(facts)
