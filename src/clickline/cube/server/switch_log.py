"""The switches of a cube server, in state.json: what a restart serves, and which numbers were used.

A switch is written before it is executed: it is the version that all servers were told to serve, so a server that dies
in between comes back with that one, never with one merely downloaded.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from clickline.errors import VersionError
from clickline.files.json_state import read_state, write_state

FILE = "state.json"
_HISTORY = 100


class SwitchLog:
    """The last switches of a server, the newest last. Its caller serializes changes."""

    def __init__(self, directory: Path, *, name: str, shard: int, shards: int) -> None:
        self._path = directory / FILE
        self._name, self._shard, self._shards = name, shard, shards
        self.number = 0
        """The highest number of a switch."""
        self.peers: list[str] = []
        """Addresses of the other servers of the shard."""
        self._history: list[tuple[int, int]] = []

    @classmethod
    def read(cls, directory: Path, *, name: str, shard: int, shards: int) -> Self:
        log = cls(directory, name=name, shard=shard, shards=shards)
        state = read_state(log._path) or {}
        try:
            log.number = _checked(state.get("number", 0))
            log._history = [(_checked(version), _checked(number)) for version, number in state.get("history", [])]
            log.peers = [str(peer) for peer in state.get("peers", [])]
        except (TypeError, ValueError) as error:
            raise VersionError(f"{log._path}: damaged: {error}; remove it to begin without what it knew") from None
        return log

    @property
    def last(self) -> tuple[int, int]:
        """Version and number of the last switch; zeros before the first."""
        return self._history[-1] if self._history else (0, 0)

    def versions(self, count: int = _HISTORY) -> list[int]:
        """The last versions that were switched to, each once, the newest last."""
        return [version for version, _ in self._history[-count:]]

    def add(self, version: int, number: int, *, peers: Iterable[str] | None) -> None:
        """Record a switch, on disk when this returns. `peers` None: the same as before."""
        self.number = number
        self.peers = self.peers if peers is None else list(peers)
        # Each version once: after switching back and forth, the last N entries are still N different versions to keep.
        others = [switch for switch in self._history if switch[0] != version]
        self._history = [*others, (version, number)][-_HISTORY:]
        write_state(
            self._path,
            {
                "name": self._name,
                "shard": self._shard,
                "shards": self._shards,
                "current": version,
                "number": number,
                "history": self._history,
                "peers": self.peers,
                "time": time.time(),
            },
        )


def _checked(value: object) -> int:
    """A version or the number of a switch, as it is in the file."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise ValueError(f"{value!r:.40} is neither a version nor the number of a switch")
    return value
