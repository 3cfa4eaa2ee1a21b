"""A bit that is not what it was, in a file that somebody trusts: what a disk or a network does once in a long while.

The file is replaced by a copy in which one bit differs, with the same times: like a block that changed on the disk, it
is seen by whoever opens the file next, not by those who have mapped it.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

_ROOM_WITHIN = 60.0
"""Seconds in which a disk that is full has room again, for repairs."""


@dataclass(frozen=True)
class BitFlip:
    """One that was made. `undo` repairs it, unless somebody has replaced or removed the file since."""

    path: Path
    offset: int
    bit: int
    inode: int
    """Of the file with the flipped bit."""

    def undo(self) -> bool:
        """Whether the flipped bit was still there to be repaired."""
        try:
            if self.path.stat().st_ino != self.inode:
                return False
        except FileNotFoundError:
            return False
        until = time.monotonic() + _ROOM_WITHIN
        while True:
            try:
                _replace_with_flip(self.path, self.offset, self.bit)
            except FileNotFoundError:
                return False
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
            else:
                return True

    def __str__(self) -> str:
        return f"bit {self.bit} of byte {self.offset} of {self.path}"


def flip_bit(path: Path, offset: int, bit: int) -> BitFlip:
    """Flip this very bit. A negative offset counts from the end."""
    offset = offset if offset >= 0 else path.stat().st_size + offset
    return BitFlip(path, offset, bit, _replace_with_flip(path, offset, bit))


def flip_random_bit(path: Path, draw: random.Random) -> BitFlip:
    """Flip any bit of a file that is not empty."""
    return flip_bit(path, draw.randrange(path.stat().st_size), draw.randrange(8))


def flip_in_any_of(paths: list[Path], draw: random.Random) -> BitFlip | None:
    """Flip a bit in one of the files, as far as they are there and not empty; None if none of them is.

    Large files are drawn more often, but not so often that small ones never are.
    """
    there = [path for path in sorted(paths) if path.is_file() and path.stat().st_size]
    if not there:
        return None
    (chosen,) = draw.choices(there, weights=[path.stat().st_size ** 0.5 for path in there])
    return flip_random_bit(chosen, draw)


def version_files(store: Path) -> list[Path]:
    """Of a store of versions: donefile, manifests, rows, networks, samples."""
    return [store / "versions.jsonl", *store.glob("v[0-9]*/*")]


def build_files(builds: Path) -> list[Path]:
    """Of transfer's builds: tars and what is told about them."""
    return [*builds.glob("**/[0-9]*_[0-9]*/*")]


def deployed_files(deploy: Path) -> list[Path]:
    """Of a cube server's directory: tars, merged chains, and what the agent noted. Not its state.json."""
    return [path for path in deploy.glob("data/[0-9c]*/*") if path.is_file()]


def _replace_with_flip(path: Path, offset: int, bit: int) -> int:
    times = path.stat()
    content = bytearray(path.read_bytes())
    content[offset] ^= 1 << bit
    aside = path.with_name(f".{path.name}.flipped")
    try:
        aside.write_bytes(content)
    except OSError:  # the disk is full
        aside.unlink(missing_ok=True)
        raise
    aside.chmod(times.st_mode & 0o777)
    os.utime(aside, ns=(times.st_atime_ns, times.st_mtime_ns))
    inode = aside.stat().st_ino
    aside.replace(path)
    return inode
