"""Stand-in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Limits:
    rows: int = 4096
    body: int = 16 << 20
    queue: int = 256
    timeout: float = 1.0
