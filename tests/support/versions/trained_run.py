"""What the training that tests publish from leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Training:
    """A finished run and its checkpoints, oldest first."""

    run: Path
    checkpoints: list[Path]
