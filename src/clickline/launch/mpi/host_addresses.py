"""Addresses of this host, and those by which the hosts of a job reach each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from clickline.launch.mpi.rank_messages import HostAddress, RankFacts
from clickline.net.addresses import is_loopback
from clickline.net.own_addresses import source_address

_ROUTES = Path("/proc/net/route")
_ANYWHERE = "192.0.2.1"
"""Of a network that is for documentation: what leads there is the default route."""
_LOOPBACK = "127.0.0.1"


def own_addresses() -> list[HostAddress]:
    """IPv4 addresses of this host: in each network that it is in, else the one from which packets leave it.

    A host that is reached by IPv6 alone is named by `cluster.hosts[].address`.
    """
    found = [HostAddress(own, str(network)) for network in _own_networks() if (own := _source_for(str(network[1])))]
    if not found and (own := _source_for(_ANYWHERE)):
        found = [HostAddress(own, f"{own}/32")]
    return found


def _own_networks() -> Iterator[IPv4Network]:
    """Networks that are reached without a gateway, as the kernel lists them."""
    with suppress(OSError):
        for line in _ROUTES.read_text(encoding="ascii").splitlines()[1:]:
            destination, gateway, mask = (_address(line.split()[column]) for column in (1, 2, 7))
            network = IPv4Network(f"{destination}/{mask}")
            if int(gateway) == 0 and 0 < network.prefixlen < network.max_prefixlen:
                yield network


def _address(digits: str) -> IPv4Address:
    """From eight hexadecimal digits, the last byte first."""
    return IPv4Address(int.from_bytes(bytes.fromhex(digits), "little"))


def _source_for(destination: str) -> str:
    own = source_address(destination)
    return "" if not own or is_loopback(own) else own


def addresses_of_nodes(nodes: Sequence[RankFacts]) -> list[str]:
    """For each host, given by one of its ranks, the address by which the others reach it.

    One host alone stays on the loopback address. Several meet in a network in which each has an address of its own:
    an address that two of them have, such as that of a bridge for containers, leads nowhere. Where there is no such
    network, packets are routed between several, and the first address of each is taken.
    """
    if len(nodes) == 1:
        return [_LOOPBACK]
    for network in dict.fromkeys(entry.network for entry in nodes[0].addresses):
        chosen = [next((e.address for e in node.addresses if e.network == network), "") for node in nodes]
        if all(chosen) and len(set(chosen)) == len(nodes):
            return chosen
    every = [entry.address for node in nodes for entry in node.addresses]
    return [
        next((entry.address for entry in node.addresses if every.count(entry.address) == 1), node.hostname)
        for node in nodes
    ]
