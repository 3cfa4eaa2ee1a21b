"""Two hosts on one machine: network namespaces with addresses of their own, joined by a bridge in a third.

The machine's own network is not touched. The addresses are from 198.18.0.0/15, which is set aside for testing
networks.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.processes import ENVIRONMENT

TOKEN = "for-this-test-and-no-other"  # noqa: S105


def ip(*words: str) -> None:
    """`ip`, which must succeed."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def unavailable() -> str:
    """Why there can be no namespaces here; empty if there can."""
    if shutil.which("ip") is None:
        return "there is no `ip` (package iproute2)"
    name = f"clk{os.getpid()}t"
    try:
        ip("netns", "add", name)
    except OSError as error:
        return f"network namespaces may not be made here: {error}"
    try:
        ip("-n", name, "link", "add", "bridge", "type", "bridge")
        ip("-n", name, "link", "add", "one", "type", "veth", "peer", "name", "other")
    except OSError as error:
        return f"a network namespace may not be furnished here: {error}"
    finally:
        ip("netns", "delete", name)
    return ""


@dataclass
class Host:
    """One of them."""

    namespace: str
    address: str
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def take(self, address: str) -> None:
        """Have one more address, as a service has that moves from host to host."""
        ip("-n", self.namespace, "address", "add", f"{address}/24", "dev", "eth0")

    def drop(self, address: str) -> None:
        ip("-n", self.namespace, "address", "delete", f"{address}/24", "dev", "eth0")

    def start(self, verb: str, job: Path, *, log: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
        """`clickline VERB JOB` on this host, told by its environment alone who it is."""
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "clickline", verb, str(job)]
        with log.open("ab") as file:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**ENVIRONMENT, "CLICKLINE_TOKEN": TOKEN, **env},
            )
        self.started.append(process)
        return process


@dataclass
class Hosts:
    one: Host
    other: Host
    middle: str

    def cut(self) -> None:
        """Pull the other host's cable."""
        ip("-n", self.middle, "link", "set", "to-other", "down")

    def mend(self) -> None:
        ip("-n", self.middle, "link", "set", "to-other", "up")


def attach(host: Host, plug: str, *, middle: str) -> None:
    """Link a host's namespace to the bridge, by a cable whose end there is `plug`."""
    ip("-n", host.namespace, "link", "add", "eth0", "type", "veth", "peer", "name", plug, "netns", middle)
    ip("-n", middle, "link", "set", plug, "master", "bridge", "up")
    ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
    ip("-n", host.namespace, "link", "set", "eth0", "up")
    ip("-n", host.namespace, "link", "set", "lo", "up")


@contextmanager
def two_hosts() -> Iterator[Hosts]:
    """Both, linked; with everything that was started on them, gone afterwards."""
    prefix = f"clk{os.getpid()}"
    names = [f"{prefix}m", f"{prefix}a", f"{prefix}b"]
    hosts = Hosts(Host(names[1], "198.18.7.1"), Host(names[2], "198.18.7.2"), names[0])
    try:
        for name in names:
            ip("netns", "add", name)
        ip("-n", hosts.middle, "link", "add", "bridge", "type", "bridge")
        ip("-n", hosts.middle, "link", "set", "bridge", "up")
        for host, plug in ((hosts.one, "to-one"), (hosts.other, "to-other")):
            attach(host, plug, middle=hosts.middle)
        yield hosts
    finally:
        for process in hosts.one.started + hosts.other.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait(10)
        for name in names:
            with suppress(OSError):  # one that was not made
                ip("netns", "delete", name)
