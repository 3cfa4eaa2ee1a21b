"""How far transfer is with a version, read from its page /dict/info.

That page has the shape, and the misspelt keys, of Cube's transfer. It is read here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> DeliveryStatus:
        """From the JSON of /dict/info. Raises ValueError or TypeError if a number is not one."""
        current = info.get("current_version_info") or [{"version": 0}]
        rolling = info.get("wait_version_info") or {}
        return cls(
            serving=int(current[0]["version"]),
            rolling=int(rolling.get("version") or 0),
            held=int(info.get("held") or 0),
            problem=str(info.get("problem") or ""),
            servers=int(info.get("inst_num") or 0),
            downloaded=int(info.get("download_inst") or 0),
            loaded=int(info.get("reload_insts") or 0),
            switched=int(info.get("enable_insts") or 0),
        )

    def has_delivered(self, version: int) -> bool:
        """Whether nothing is under way and the version is in service, or was taken out of it again by a rollback."""
        return not self.rolling and bool(self.serving) and version in (self.serving, self.held)
