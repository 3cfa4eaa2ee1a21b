"""Two hosts with an sshd each, and a client from which they are reached: nothing is shared but the network.

Each is a network namespace with a host name and a mount namespace of its own. One directory, `private`, is another one
on each host: what one writes there, the others do not see. Keys, known_hosts and the client's configuration are made
for the test; `ssh` on the client's PATH is OpenSSH with that configuration.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.eventually import eventually
from support.hosts import network_hosts
from support.hosts.network_hosts import Host, Hosts, attach, ip, two_hosts
from support.processes import ENVIRONMENT

PORT = 2222
SSHD = "/usr/sbin/sshd"


def unavailable() -> str:
    """Why there can be none here; empty if there can."""
    if not Path(SSHD).exists() or shutil.which("ssh") is None:
        return "there is no sshd or no ssh (packages openssh-server, openssh-client)"
    return network_hosts.unavailable()


@dataclass
class SshHosts:
    """Both hosts, by the names `one` and `other`, and the client."""

    network: Hosts
    client: Host
    directory: Path
    private: Path
    variables: dict[str, str] = field(default_factory=dict)
    """Of the environment on the client, beside the usual ones."""
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.directory}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**ENVIRONMENT, "PATH": path, "CLICKLINE_STATE": str(self.directory / "jobs"), **self.variables}

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """`clickline …` on the client."""
        return self.start_at_desk([sys.executable, "-m", "clickline", *map(str, arguments)])

    def start_at_desk(
        self, command: Sequence[str], *, directory: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Any command on the client; `env` is added to its environment."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.client.namespace, *command],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.environment, **(env or {})},
        )
        self.started.append(process)
        return process

    def run(self, *arguments: str | Path, seconds: float = 240) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def on(self, name: str, command: str) -> bytes:
        """What a shell command prints on a host."""
        return subprocess.run(
            ["ip", "netns", "exec", self.client.namespace, str(self.directory / "ssh-of-test"), name, command],
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout

    def fetch(self, name: str, remote: str, place: Path) -> Path:
        """A copy of a host's directory."""
        place.mkdir(parents=True)
        packed = self.on(name, f"tar -C {remote} -c .")
        subprocess.run(["tar", "-C", str(place), "-x"], input=packed, check=True)
        return place

    def pids(self, name: str) -> list[int]:
        """Of everything that runs on a host."""
        return _pids({"one": self.network.one, "other": self.network.other, "client": self.client}[name].namespace)

    def processes(self, name: str) -> list[str]:
        """Command lines of the Clickline processes on a host."""
        found = []
        for pid in self.pids(name):
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                if "clickline" in " ".join(words[1:4]) and "python" in words[0]:
                    found.append(" ".join(words))
        return found

    def pid(self, name: str, role: str) -> int:
        """Of a role on a host; 0 if there is none, which must not be killed: that would be this process's group."""
        return self._pid(name, ["-m", "clickline", role])

    def runner(self, name: str) -> int:
        """The process that runs a host's part of a job; 0 if there is none."""
        return self._pid(name, ["-m", "clickline.launch.hosts.host_runner"])

    def _pid(self, name: str, arguments: list[str]) -> int:
        for pid in self.pids(name):
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                if words[1 : 1 + len(arguments)] == arguments:
                    return pid
        return 0

    def kill(self, name: str, role: str) -> int:
        """Kill the process of a role on a host, as soon as there is one; its number."""
        pid: int = eventually(lambda: self.pid(name, role), what=f"a {role} on {name}")
        os.kill(pid, signal.SIGKILL)
        return pid


def _pids(namespace: str) -> list[int]:
    done = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    return [int(line) for line in done.stdout.split()]


def _keys(directory: Path) -> None:
    for name in ("client", "stranger", "host"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "for a test", "-f", str(directory / name)]
        subprocess.run(command, check=True)
    shutil.copy(directory / "client.pub", directory / "authorized_keys")


def _client(directory: Path, network: Hosts) -> None:
    """ssh with a configuration of its own, which knows both hosts by their names and keys."""
    host_key = " ".join((directory / "host.pub").read_text().split()[:2])
    addresses = {"one": network.one.address, "other": network.other.address}
    known = [f"[{address}]:{PORT} {host_key}" for address in addresses.values()]
    (directory / "known_hosts").write_text("\n".join(known) + "\n")
    entries = [f"Host {name}\n  HostName {address}\n" for name, address in addresses.items()]
    common = f"Host *\n  User root\n  Port {PORT}\n  IdentityFile {directory}/client\n  IdentitiesOnly yes\n"
    common += f"  UserKnownHostsFile {directory}/known_hosts\n  LogLevel ERROR\n"
    # Two copies: a test may change the one that the launcher's ssh reads.
    for program, file in (("ssh", "config"), ("ssh-of-test", "config-of-test")):
        (directory / file).write_text("".join(entries) + common)
        ssh = directory / program
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {directory}/{file} "$@"\n')
        ssh.chmod(0o755)


def _sshd(
    host: Host, name: str, *, directory: Path, private: Path, megabytes: int, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    configuration = directory / f"sshd-{name}"
    configuration.write_text(
        f"ListenAddress {host.address}:{PORT}\nHostKey {directory}/host\n"
        f"AuthorizedKeysFile {directory}/authorized_keys\n"
        "UsePAM no\nStrictModes no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
        f"PidFile {directory}/sshd-{name}.pid\n"
        + (f"SetEnv {' '.join(f'{name}={value}' for name, value in environment.items())}\n" if environment else "")
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    inside = (
        f"hostname {name} && mount -t tmpfs -o size={megabytes}m none {private} && exec {SSHD} -D -e -f {configuration}"
    )
    with (directory / f"sshd-{name}.log").open("wb") as log:
        return subprocess.Popen(
            ["ip", "netns", "exec", host.namespace, "unshare", "--uts", "--mount", "sh", "-ec", inside],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


@contextmanager
def ssh_hosts(
    directory: Path, *, megabytes: int = 512, login_environment: Mapping[str, str] | None = None
) -> Iterator[SshHosts]:
    """Both hosts and the client; with everything that was started on them, gone afterwards.

    `login_environment` is that of logins on both hosts.
    """
    private = directory / "private"
    private.mkdir(parents=True)
    _keys(directory)
    with two_hosts() as network:
        client = Host(f"clk{os.getpid()}d", "198.18.7.3")
        daemons: list[subprocess.Popen[bytes]] = []
        both = SshHosts(network, client, directory, private)
        try:
            ip("netns", "add", client.namespace)
            attach(client, "to-client", middle=network.middle)
            _client(directory, network)
            for name, host in (("one", network.one), ("other", network.other)):
                daemons.append(
                    _sshd(
                        host,
                        name,
                        directory=directory,
                        private=private,
                        megabytes=megabytes,
                        environment={"OMP_NUM_THREADS": "1", **(login_environment or {})},
                    )
                )
            for name in ("one", "other"):
                eventually(lambda name=name: _answers(both, name), what=f"sshd on {name}")
            yield both
        finally:
            for process in both.started:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                process.communicate()
            for namespace in (network.one.namespace, network.other.namespace, client.namespace):
                for pid in _pids(namespace):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            for daemon in daemons:
                daemon.wait(10)
            with suppress(OSError):
                ip("netns", "delete", client.namespace)


def _answers(hosts: SshHosts, name: str) -> bool:
    try:
        return hosts.on(name, "hostname") == f"{name}\n".encode()
    except subprocess.CalledProcessError:
        return False
