"""The files of processes that are started together: ready files, which hold their addresses, and logs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessFiles:
    """Where a process of a role and rank has its files, below one directory."""

    directory: Path

    def ready(self, role: str, rank: int = 0) -> Path:
        """Written by the process (`--ready-file`) when it listens."""
        return self.directory / "ready" / f"{role}.{rank}.json"

    def log(self, role: str, rank: int = 0) -> Path:
        return self.directory / "logs" / f"{role}.{rank}.log"

    def address(self, role: str, rank: int = 0) -> str:
        """The address in a ready file; empty if there is none yet."""
        try:
            return str(json.loads(self.ready(role, rank).read_text(encoding="utf-8"))["http"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""
