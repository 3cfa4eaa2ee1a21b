"""The shard files that a cube server has open, each verified once while it is open."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from clickline import _native
from clickline.cube.server.disk import Disk
from clickline.cube.shard_files import ShardFile

Dictionaries = dict[str, _native.Dictionary]
"""Of one file, by table."""


class OpenShardFiles:
    """Dictionaries by file, not by version: deltas of one base share its mapping.

    Everything but `open_verified` changes what is open, or relies on it, so the caller holds its lock.
    """

    def __init__(self, disk: Disk, *, memory: bool, report: Callable[[str], None]) -> None:
        """`report` is called with a sentence for every damaged file."""
        self._disk, self._memory, self._report = disk, memory, report
        self._opened: dict[Path, Dictionaries] = {}

    def open_verified(self, version: int) -> dict[Path, Dictionaries]:
        """Open and verify the files of a version that are not open yet; `add` keeps them.

        A damaged file is set aside and the chain is looked up again: a merged chain may stand in for it, or the delta
        that was merged.
        """
        verified: dict[Path, Dictionaries] = {}
        while True:
            chain = self._disk.chain(version)  # raises when no sound file is left
            for shard in chain:
                if shard.path in self._opened or shard.path in verified:
                    continue
                try:
                    dictionaries = self._open(shard)
                    for dictionary in dictionaries.values():
                        dictionary.verify()
                except (RuntimeError, ValueError, OSError) as error:
                    self._disk.distrust(shard, str(error))
                    self._report(f"{shard.path}: damaged: {error}")
                    break
                verified[shard.path] = dictionaries
            else:
                # Files of an earlier attempt, whose chain turned out to be damaged, are not kept open.
                paths = {shard.path for shard in chain}
                return {path: dictionaries for path, dictionaries in verified.items() if path in paths}

    def add(self, opened: dict[Path, Dictionaries]) -> None:
        self._opened.update(opened)

    def layers(self, chain: list[ShardFile]) -> dict[str, list[_native.Dictionary]]:
        """The dictionaries of a chain by table, base first."""
        for shard in chain:  # `open_verified` has verified what needs to be
            if shard.path not in self._opened:
                self._opened[shard.path] = self._open(shard)
        return {
            name: [self._opened[shard.path][name] for shard in chain if name in self._opened[shard.path]]
            for name in chain[-1].tables
        }

    def keep(self, paths: Collection[Path]) -> None:
        """Close all files but these. What readers still hold stays mapped until they are done."""
        self._opened = {path: dictionaries for path, dictionaries in self._opened.items() if path in paths}

    def _open(self, shard: ShardFile) -> Dictionaries:
        return {name: span.open(memory=self._memory) for name, span in shard.tables.items()}
