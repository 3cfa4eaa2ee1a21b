"""Limits of what a worker admits: connections without authentication, and bytes of requests under way.

A connection that has not shown the token costs a descriptor and little else, but anybody can open thousands. So those
have a limit of their own, and a new one is never turned away for it: the address that holds the most of them loses its
oldest. A client that has the token shows it with its first request, within milliseconds, and does not count any more.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

from clickline.net.request_errors import refuse

Member = TypeVar("Member")
_TRY_AGAIN = 1.0


class EvictingPool(Generic[Member]):
    """Members by address, up to a limit. One more evicts the oldest member of the address that has the most."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._address_of: dict[Member, str] = {}
        self._by_address: dict[str, dict[Member, None]] = {}

    def __len__(self) -> int:
        return len(self._address_of)

    def __contains__(self, member: Member) -> bool:
        return member in self._address_of

    def add(self, member: Member, address: str) -> Member | None:
        """Add a member. Returns the member that was evicted for it, if any."""
        self._address_of[member] = address
        self._by_address.setdefault(address, {})[member] = None
        if len(self._address_of) <= self._limit:
            return None
        # Of addresses with equally many members `max` returns the first, so a new address does not evict itself. Dicts
        # keep the order of insertion: the first member is the oldest.
        most: dict[Member, None] = max(self._by_address.values(), key=len)
        evicted = next(iter(most))
        self.discard(evicted)
        return evicted

    def discard(self, member: Member) -> None:
        address = self._address_of.pop(member, None)
        if address is None:
            return
        members = self._by_address[address]
        del members[member]
        if not members:
            del self._by_address[address]


class ByteBudget:
    """The bytes that all requests under way may take together. The loop's thread only."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0

    def take(self, size: int) -> None:
        """Raises RequestError, and takes nothing, if there is no room."""
        if self.used + size > self.limit:
            raise refuse(
                "overloaded", f"requests under way have {self.used} bytes, the limit is {self.limit}", _TRY_AGAIN
            )
        self.used += size

    def release(self, size: int) -> None:
        self.used -= size


def client_network(peer: object) -> str:
    """The address that a connection counts for; of IPv6 the first half, since one host has all addresses below that."""
    if not isinstance(peer, tuple) or not peer:
        return ""  # a unix socket
    try:
        address = ip_address(str(peer[0]).partition("%")[0])
    except ValueError:
        return str(peer[0])
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped) if address.ipv4_mapped else address.packed[:8].hex()
    return str(address)
