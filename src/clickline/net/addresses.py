"""Addresses of processes: `unix:/path/to.sock` or `tcp:HOST:PORT` of a job's, HOST:PORT of those that speak HTTP.

An IPv6 host stands in brackets. PaddlePaddle wrote HOST:PORT, or HOST alone with the port in a variable of its own;
both are understood.
"""

from __future__ import annotations

import ipaddress

from clickline.errors import JobError

_EXAMPLE = "write tcp:10.0.0.1:6174 or unix:/run/clickline/ps0.sock"


def address_of(text: str, *, source: str, port: int | None = None) -> str:
    """An address in full. `source` is the variable that it came from, for messages; `port` is for a host alone."""
    text = text.strip()
    if text.startswith("unix:"):
        if not text.startswith("unix:/"):
            raise JobError(f"{source}: {text!r} must have an absolute path; {_EXAMPLE}")
        return text
    host, own_port = _split(text.removeprefix("tcp:"), source=source)
    number = port if own_port is None else own_port
    if not host or number is None:
        raise JobError(f"{source}: {text!r} lacks a {'port' if host else 'host'}; {_EXAMPLE}")
    return tcp(host, number, source=source)


def tcp(host: str, port: int, *, source: str) -> str:
    """A TCP address in full."""
    if not 1 <= port <= 65535:
        raise JobError(f"{source}: port {port} is not between 1 and 65535")
    return f"tcp:[{host}]:{port}" if ":" in host else f"tcp:{host}:{port}"


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of a TCP address in full; the host without brackets."""
    host, _, port = address.removeprefix("tcp:").rpartition(":")
    return host.strip("[]"), int(port)


def listen_address(text: str) -> tuple[str, int]:
    """HOST:PORT as its parts, the host without brackets; an empty host is every address, port 0 any that is free."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise JobError(
            f"{text!r} is not an address to listen on; write HOST:PORT, such as 127.0.0.1:8001 or [::1]:8001"
        )
    return host.strip("[]"), int(port)


def url_of(host: str, port: int, *, scheme: str = "http") -> str:
    """The URL of a server, with brackets where the host needs them."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def addresses_of(text: str, *, source: str, port: int | None = None) -> list[str]:
    """A comma-separated list. Hosts alone get `port`; a host that comes again gets the next one."""
    addresses: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        address = address_of(part, source=source, port=port)
        alone = not part.startswith("unix:") and _split(part.removeprefix("tcp:"), source=source)[1] is None
        # PaddlePaddle named a host once for each server on it.
        while alone and address in addresses:
            host, number = host_and_port(address)
            address = tcp(host, number + 1, source=source)
        if address in addresses:
            raise JobError(f"{source} names {part} twice")
        addresses.append(address)
    return addresses


def _split(text: str, *, source: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise JobError(f"{source}: {text!r} opens a bracket and does not close it; {_EXAMPLE}")
    elif text.count(":") > 1:  # IPv6, without brackets and so without a port
        return text, None
    else:
        host, _, rest = text.partition(":")
        rest = f":{rest}" if rest else ""
    if not rest:
        return host, None
    if not rest[1:].isdigit():
        raise JobError(f"{source}: the port of {text!r} is not a number; {_EXAMPLE}")
    return host, int(rest[1:])
