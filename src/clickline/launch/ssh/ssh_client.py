"""The OpenSSH client: commands on a host, and why a connection failed, in words that say what to do."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence

from clickline.config.hosts import Host
from clickline.errors import PeerError

_CONNECTION_FAILED = 255
"""Of ssh itself; a command that ends with it cannot be told from that."""
_OPTIONS = {
    # Never a question: nobody may be there to answer, and several hosts would ask at once.
    "BatchMode": "yes",
    # Whatever ~/.ssh/config says: an unknown host would get the token of the job.
    "StrictHostKeyChecking": "yes",
    "ConnectTimeout": "10",
    "EscapeChar": "none",
    "ForwardAgent": "no",
}
_ALIVE_COUNT = 6
_ADVICE = (
    ("host key verification failed", "its key is not, or not the one, in known_hosts: `ssh {host}` once by hand"),
    ("permission denied", "no key of yours is accepted there: `ssh-copy-id {host}`, or name the key in ~/.ssh/config"),
    ("could not resolve hostname", "the name is unknown here: give its address, or an entry in ~/.ssh/config"),
    ("connection refused", "no sshd listens there: is it running, and is ssh_port right?"),
    ("timed out", "it does not answer: is it up, and is port 22 (or ssh_port) open?"),
    ("no route to host", "it cannot be reached from here: is it up, and on this network?"),
)


def ssh_command(host: Host, remote: Sequence[str] | str, *, silence: float = 60.0) -> list[str]:
    """The command line that runs `remote` on a host. A connection that is cut off for `silence` seconds ends."""
    alive = {
        "ServerAliveInterval": str(max(1, round(silence / _ALIVE_COUNT))),
        "ServerAliveCountMax": str(_ALIVE_COUNT),
    }
    options = [word for name, value in (_OPTIONS | alive).items() for word in ("-o", f"{name}={value}")]
    port = ["-p", str(host.ssh_port)] if host.ssh_port else []
    command = remote if isinstance(remote, str) else shlex.join(remote)
    return ["ssh", "-T", *options, *port, "--", host.host, command]


def run_on(host: Host, remote: Sequence[str] | str, *, content: bytes = b"", timeout: float = 60.0) -> bytes:
    """What a command on a host prints. Raises PeerError, which says why and what to do."""
    try:
        done = subprocess.run(
            ssh_command(host, remote), input=content, capture_output=True, timeout=timeout, check=False
        )
    except FileNotFoundError:
        raise PeerError("there is no ssh here: install the OpenSSH client (package openssh-client)") from None
    except subprocess.TimeoutExpired:
        raise PeerError(f"{host.host}: no answer within {timeout:.0f} s") from None
    if done.returncode:
        raise PeerError(failure(host, done.returncode, done.stderr.decode(errors="replace")))
    return done.stdout


def failure(host: Host, code: int, said: str) -> str:
    """Why a command failed: ssh's own last line and what to do about it, or the command's last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else "it said nothing"
    if code != _CONNECTION_FAILED:
        return f"{host.host}: exit code {code}: {last}"
    for words, advice in _ADVICE:
        if any(words in line.lower() for line in lines):
            return f"{host.host}: {last}; {advice.format(host=host.host)}"
    return f"{host.host}: no connection: {last}"
