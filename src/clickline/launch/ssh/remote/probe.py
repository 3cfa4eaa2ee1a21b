"""Looks at a host: its Python, whether Clickline is there, free space, and ports that nobody uses.

The last argument is a JSON object: root (directory of jobs), ports (how many, or a list of those to be had), reached_at
(name or address by which other hosts reach this one), workspace (a directory that must be there, or empty). Prints one
JSON object. Runs by itself on the host, so it uses the standard library only.
"""

from __future__ import annotations

import importlib.metadata
import ipaddress
import json
import os
import random
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

_LOWEST, _HIGHEST = 20000, 32000  # below the ports that Linux gives to outgoing connections
_TRIES = 2000


def refusal(port: int) -> str:
    """Why a port cannot be listened on; empty if it can."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError as error:
            return str(error)
    return ""


def loopback(reached_at: str) -> str:
    """The address that a name leads to here, if it is one that no other host reaches; else empty."""
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(reached_at, 0, type=socket.SOCK_STREAM)]
    except OSError:
        return ""  # unknown here: whoever listens falls back to all addresses, or says so
    own = [address for address in found if ipaddress.ip_address(address.partition("%")[0]).is_loopback]
    return own[0] if own and found[0] == own[0] else ""


def free_ports(count: int) -> list[int]:
    """So many ports, or fewer if there are not enough."""
    found: list[int] = []
    for _ in range(_TRIES):
        if len(found) == count:
            break
        port = random.randint(_LOWEST, _HIGHEST)
        if port not in found and not refusal(port):
            found.append(port)
    return found


def main() -> None:
    wanted = json.loads(sys.argv[-1])
    root = Path(wanted["root"]).expanduser().absolute()
    facts: dict[str, Any] = {
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "hostname": socket.gethostname(),
        "root": str(root),
        "loopback": loopback(wanted["reached_at"]),
    }
    try:
        facts["clickline"] = importlib.metadata.version("clickline")
    except importlib.metadata.PackageNotFoundError:
        facts["clickline"] = ""
    try:
        root.mkdir(parents=True, exist_ok=True)
        place = root / f".probe-{os.getpid()}"
        place.write_bytes(b"probe")
        place.unlink()
        facts["free"] = shutil.disk_usage(root).free
    except OSError as error:
        facts["unwritable"] = str(error)
    if wanted["workspace"]:
        workspace = Path(wanted["workspace"]).expanduser().absolute()
        facts["workspace"] = str(workspace) if workspace.is_dir() and os.access(workspace, os.R_OK | os.X_OK) else ""
    if isinstance(wanted["ports"], list):
        facts["ports"] = wanted["ports"]
        reasons = {str(port): refusal(port) for port in wanted["ports"]}
        facts["busy"] = {port: reason for port, reason in reasons.items() if reason}
    else:
        facts["ports"] = free_ports(wanted["ports"])
        if len(facts["ports"]) < wanted["ports"]:
            facts["busy"] = {f"{_LOWEST} to {_HIGHEST}": f"{wanted['ports']} are needed, and fewer are free"}
    sys.stdout.write(json.dumps(facts) + "\n")


main()
