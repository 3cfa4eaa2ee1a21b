"""Where each parameter server is, and which process it is: trainers are told when one moves or is replaced."""

from __future__ import annotations

import secrets

from clickline.ps.protocol.member_messages import ServerList, ServerLocation


class ServerAddresses:
    """Address and incarnation of each server, by rank. Not locked: the run's state, which owns it, is."""

    def __init__(self) -> None:
        self._by_rank: dict[int, ServerLocation] = {}
        # Part of the version: another coordinator's list with the same number of changes must not pass for this one.
        self._coordinator = secrets.token_hex(4)
        self._changes = 0

    def put(self, rank: int, address: str, incarnation: int) -> bool:
        """Note a server that has joined; whether one of its rank was known to be elsewhere, or another process."""
        before, now = self._by_rank.get(rank), ServerLocation(rank, address, incarnation)
        self._by_rank[rank] = now
        changed = before is not None and before != now
        self._changes += changed
        return changed

    @property
    def version(self) -> str:
        """Another one after every change, and with every coordinator."""
        return f"{self._coordinator}.{self._changes}"

    def to_list(self) -> ServerList:
        """For trainers: they leave a server that was replaced, and follow one that has moved."""
        return ServerList(self.version, list(self._by_rank.values()))
