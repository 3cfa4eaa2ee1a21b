"""Where each parameter server is, and which process it is: what trainers are told when one moves or is replaced."""

from __future__ import annotations

import secrets
from typing import Any


class ServerAddresses:
    """Address and incarnation of each server, by rank. Not locked: its owner is."""

    def __init__(self) -> None:
        self._by_rank: dict[int, tuple[str, int]] = {}
        self._coordinator = secrets.token_hex(4)
        self._changes = 0

    def put(self, rank: int, address: str, incarnation: int) -> bool:
        """Note a server that has joined; whether one of its rank was known to be elsewhere, or another process."""
        before, self._by_rank[rank] = self._by_rank.get(rank), (address, incarnation)
        changed = before is not None and before != self._by_rank[rank]
        self._changes += changed
        return changed

    @property
    def version(self) -> str:
        """Another one after every change, and with every coordinator."""
        return f"{self._coordinator}.{self._changes}"

    def to_dict(self) -> dict[str, Any]:
        """For trainers: they leave a server that was replaced, and follow one that has moved."""
        return {"version": self.version, "by_rank": [[rank, *found] for rank, found in self._by_rank.items()]}
