"""Everything that is wrong with the hosts of a job, named per host and all at once, before anything is started."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version

import msgspec

from clickline.config.hosts import Host
from clickline.errors import PeerError
from clickline.files.typed_json import decode_json
from clickline.launch.hosts.data_view import DataView, problems_of_views
from clickline.launch.ssh.remote import script
from clickline.launch.ssh.ssh_client import run_on

_LEAST_PYTHON = (3, 11)
VIEWER = "clickline.launch.hosts.data_view"
_AT_ONCE = 32
"""Hosts that are asked at the same time."""


class HostFacts(msgspec.Struct, kw_only=True):
    """What a host says of itself."""

    python: str
    hostname: str
    clickline: str
    """Version of the package; empty if it is not there."""
    root: str
    """The directory of jobs, in full."""
    ports: list[int] = []
    """Free ones, as many as were wanted."""
    busy: dict[str, str] = {}
    """Ports that cannot be had, and why."""
    free: int = 0
    """Bytes on the disk of the root."""
    unwritable: str = ""
    """Why nothing can be written there."""
    workspace: str = ""
    """The workspace that was deployed there, in full; empty if there is none."""
    loopback: str = ""
    """What the address by which the other hosts reach it leads to on the host itself, if that is a loopback address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNeeds:
    """What each host of a job must have."""

    root: str
    """The directory of jobs, which must be writable."""
    bytes: int
    """Free space there."""
    workspace: str = ""
    """A directory that must be there."""
    clickline: bool = True
    """Whether its Python must have our version of Clickline, which else is installed for the job."""


def check_hosts(hosts: Sequence[Host], needs: HostNeeds, *, ports: Sequence[int | list[int]]) -> list[HostFacts]:
    """What all hosts say of themselves. Raises PeerError that lists every problem of every host.

    `ports`: for each host how many it needs, or the very ports.
    """
    with ThreadPoolExecutor(min(_AT_ONCE, len(hosts))) as pool:
        answers = list(pool.map(lambda host, wanted: _asked(host, needs, ports=wanted), hosts, ports))
    problems = []
    for host, answer in zip(hosts, answers, strict=True):
        found = [answer] if isinstance(answer, str) else _problems(host, answer, needs)
        if len(hosts) > 1 and isinstance(answer, HostFacts) and answer.loopback:
            found.append(
                f"{host.host}: {host.reached_at!r} leads to {answer.loopback} there (/etc/hosts), where other hosts do "
                "not reach it: set cluster.hosts[].address to its address in their network"
            )
        problems += found
    _refuse(problems)
    return [answer for answer in answers if isinstance(answer, HostFacts)]


def check_data(hosts: Sequence[Host], paths: Sequence[str], *, directories: Sequence[str]) -> None:
    """Raise PeerError, with every problem of every host, unless all see these files, relative to their directories."""
    if not paths:
        return
    content = msgspec.json.encode(list(paths))

    def view(host: Host, directory: str) -> DataView:
        command = [*shlex.split(host.python), "-m", VIEWER, directory]
        try:
            return decode_json(run_on(host, command, content=content), DataView)
        except (PeerError, msgspec.MsgspecError) as error:
            return DataView(problem=str(error))

    with ThreadPoolExecutor(min(_AT_ONCE, len(hosts))) as pool:
        views = list(pool.map(view, hosts, directories))
    _refuse(problems_of_views(dict(zip((host.host for host in hosts), views, strict=True))))


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise PeerError("nothing was started:\n" + "\n".join(f"  {problem}" for problem in problems))


def _asked(host: Host, needs: HostNeeds, *, ports: int | list[int]) -> HostFacts | str:
    """What the host says, or why it says nothing."""
    wanted = json.dumps(
        {"root": needs.root, "ports": ports, "reached_at": host.reached_at, "workspace": needs.workspace}
    )
    try:
        # The script comes by standard input; what is wanted as its argument.
        said = run_on(host, [*shlex.split(host.python), "-", wanted], content=script("probe").encode())
        return decode_json(said.splitlines()[-1] if said.strip() else b"", HostFacts)
    except PeerError as error:
        if "exit code 127" in str(error):
            return f"{host.host}: there is no {host.python} there: set cluster.hosts[].python to one that is"
        return str(error)
    except msgspec.MsgspecError as error:
        return f"{host.host}: its answer cannot be read ({error}): does its shell print something when it starts?"


def _problems(host: Host, facts: HostFacts, needs: HostNeeds) -> list[str]:
    ours, problems = version("clickline"), []
    if tuple(int(part) for part in facts.python.split(".")[:2]) < _LEAST_PYTHON:
        least = ".".join(map(str, _LEAST_PYTHON))
        problems.append(f"its {host.python} is Python {facts.python}, at least {least} is needed")
    if needs.clickline and not facts.clickline:
        problems.append(f"its {host.python} has no clickline: pip install clickline=={ours} there, or --install WHEEL")
    elif needs.clickline and facts.clickline != ours:
        problems.append(f"it has clickline {facts.clickline}, here is {ours}: all must have the same")
    if facts.unwritable:
        problems.append(f"{facts.root} cannot be written: {facts.unwritable}")
    elif facts.free < needs.bytes:
        problems.append(f"{facts.root} has {facts.free / 1e6:,.0f} MB free, {needs.bytes / 1e6:,.0f} MB are needed")
    if needs.workspace and not facts.workspace:
        problems.append(f"there is no directory {needs.workspace} that can be read: --job-workspace is deployed by you")
    advice = "without cluster.port (PADDLE_PORT of a conf.py) any free ones are taken"
    for port, reason in facts.busy.items():
        problems.append(f"port {port} cannot be had: {reason}" + (f"; {advice}" if port.isdigit() else ""))
    return [f"{host.host}: {problem}" for problem in problems]
