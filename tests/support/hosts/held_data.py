"""Data of which a part is held back until a test lets it go: a run on it can do much, but cannot end before.

So a test has all the time it needs for faults, on a machine of any speed.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HELD_ROWS = 1000


@dataclass(frozen=True)
class HeldData:
    """Three files that together have the rows of one, the last one held; `settings` are of the job's `data`.

    It is read last, so that two trainers have work for some checkpoints before. There are none while one of them waits.
    """

    free: tuple[Path, Path]
    held: Path
    gate: Path

    @property
    def settings(self) -> dict[str, Any]:
        return {"train": [*map(str, self.free), str(self.held)], "pipe_command": self.pipe_command}

    @property
    def pipe_command(self) -> str:
        """Passes files on as they are, the held one when the gate is open."""
        wait = f"until [ -e {shlex.quote(str(self.gate))} ]; do sleep 0.05; done"
        return f'case "$CLICKLINE_FILE" in *-held.tsv) {wait};; esac; cat'

    def let_go(self) -> None:
        self.gate.touch()


def hold(source: str, directory: Path) -> HeldData:
    """The rows of a file, the last ones held."""
    directory.mkdir(parents=True)
    lines = Path(source).read_bytes().splitlines(keepends=True)
    half, end = (len(lines) - HELD_ROWS) // 2, len(lines) - HELD_ROWS
    names = ("part-0.tsv", "part-1.tsv", "part-2-held.tsv")
    for name, part in zip(names, (lines[:half], lines[half:end], lines[end:]), strict=True):
        (directory / name).write_bytes(b"".join(part))
    first, second, held = (directory / name for name in names)
    return HeldData((first, second), held, directory / "gate")
