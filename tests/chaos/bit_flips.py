"""One bit of one file, flipped and flipped back, if the file is still the same one."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Flip:
    """`undo` does nothing to a file that somebody has replaced or repaired meanwhile."""

    path: Path
    inode: int
    offset: int
    mask: int
    before: int

    def __str__(self) -> str:
        return (
            f"{self.path.parent.name}/{self.path.name}, byte {self.offset}, {self.before} → {self.before ^ self.mask}"
        )

    def apply(self) -> None:
        self._write(self.before, self.before ^ self.mask)

    def undo(self) -> bool:
        """Whether the damage was still there."""
        return self._write(self.before ^ self.mask, self.before)

    def _write(self, old: int, new: int) -> bool:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            if os.fstat(descriptor).st_ino != self.inode or os.pread(descriptor, 1, self.offset) != bytes([old]):
                return False
            os.pwrite(descriptor, bytes([new]), self.offset)
            return True
        finally:
            os.close(descriptor)


def choose_bit(path: Path, rng: random.Random) -> Flip:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        offset = rng.randrange(status.st_size)
        file.seek(offset)
        return Flip(path, status.st_ino, offset, 1 << rng.randrange(8), file.read(1)[0])
