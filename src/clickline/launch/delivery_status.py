"""How far transfer is with a version, read from its `GET /status` (`cube.transfer.transfer_status` has the shape)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LayoutProgress:
    """A layout, and how many of its servers have the version in service."""

    epoch: int
    shards: int
    servers: int
    joined: bool
    loaded: int
    switched: int

    @classmethod
    def of(cls, page: Mapping[str, Any]) -> LayoutProgress:
        counts = {name: int(page.get(name) or 0) for name in ("epoch", "shards", "servers", "loaded", "switched")}
        return cls(joined=bool(page.get("joined")), **counts)


@dataclass(frozen=True, slots=True)
class DeliveryStatus:
    """The versions of a cube, and how many of its servers have got how far with the one under way."""

    serving: int = 0
    """The version whose rollout was finished last; 0: none."""
    rolling: int = 0
    """The version under way; 0: none."""
    held: int = 0
    """The version that the cube was rolled back from, and that it stays away from; 0: none."""
    problem: str = ""
    servers: int = 0
    downloaded: int = 0
    loaded: int = 0
    switched: int = 0
    layouts: tuple[LayoutProgress, ...] = ()
    """The newest last."""

    @classmethod
    def of(cls, page: Mapping[str, Any]) -> DeliveryStatus:
        """From the JSON of /status. Raises ValueError or TypeError if a number is not one."""
        rollout = page.get("rollout") or {}
        return cls(
            serving=int(page.get("version") or 0),
            rolling=int(rollout.get("version") or 0),
            held=int(page.get("held") or 0),
            problem=str(page.get("problem") or ""),
            servers=len(page.get("instances") or ()),
            downloaded=int(rollout.get("downloaded") or 0),
            loaded=int(rollout.get("loaded") or 0),
            switched=int(rollout.get("switched") or 0),
            layouts=tuple(map(LayoutProgress.of, page.get("layouts") or ())),
        )

    def has_delivered(self, version: int) -> bool:
        """Whether nothing is under way and the version is in service, or was taken out of it again by a rollback."""
        return not self.rolling and bool(self.serving) and version in (self.serving, self.held)
