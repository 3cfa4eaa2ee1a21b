"""This host's own addresses: the one from which packets to another host leave, and the interface that has it."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

_SIOCGIFCONF = 0x8912
_MOST_BYTES = 40 * 1024
_ENTRY = 40
"""Bytes of a `struct ifreq`: a name of 16, then a socket address."""
_IPV6 = Path("/proc/net/if_inet6")
_ANY_PORT = 9


def source_address(destination: str) -> str:
    """The own address of packets to another one, an address or a name; empty if none can go there. Nothing is sent."""
    with suppress(OSError):
        family, kind, _, _, target = socket.getaddrinfo(destination, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as any_socket:
            any_socket.connect(target)
            return str(any_socket.getsockname()[0])
    return ""


def interface_of(address: str) -> str:
    """Name of the network interface that has an address; empty if none has, or if that cannot be found out here."""
    with suppress(OSError, ValueError):
        wanted = ip_address(address.partition("%")[0])
        return (_ipv4_interfaces() if wanted.version == 4 else _ipv6_interfaces()).get(str(wanted), "")
    return ""


def _ipv4_interfaces() -> dict[str, str]:
    """By address, as the kernel lists them; also the second address of an interface."""
    content = array.array("B", bytes(_MOST_BYTES))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("iL", len(content), content.buffer_info()[0])
        used = struct.unpack("iL", fcntl.ioctl(any_socket.fileno(), _SIOCGIFCONF, request))[0]
    entries = [content[at : at + _ENTRY].tobytes() for at in range(0, used, _ENTRY)]
    # eth0:1 is a label of eth0's second address.
    return {
        socket.inet_ntoa(entry[20:24]): entry[:16].partition(b"\0")[0].decode().partition(":")[0] for entry in entries
    }


def _ipv6_interfaces() -> dict[str, str]:
    lines = [line.split() for line in _IPV6.read_text(encoding="ascii").splitlines()]
    return {str(ip_address(bytes.fromhex(words[0]))): words[-1] for words in lines}
