"""A job's own environment on its hosts: Clickline from a wheel of this machine, for this job and no other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from clickline.config.hosts import Host
from clickline.errors import JobError, PeerError
from clickline.launch.ssh.remote import script
from clickline.launch.ssh.ssh_client import run_on

_NAME = re.compile(r"clickline-([^-]+)-.+\.whl")
_WITHIN = 1800.0
"""Seconds for an installation: pip may have to fetch PyTorch."""
UNPACKED = 4
"""A wheel takes about so many times its size when it is installed."""


def check_wheel(path: Path) -> None:
    """Raise JobError unless this is a wheel of the Clickline that runs here: all must be of one version."""
    match, ours = _NAME.fullmatch(path.name), version("clickline")
    if match is None or not path.is_file():
        raise JobError(
            f"--install {path}: not a wheel of clickline; `pip download --no-deps clickline=={ours}` gets one"
        )
    if match[1] != ours:
        raise JobError(f"--install {path}: it has clickline {match[1]}, here is {ours}: all must have the same")


def wheel_name(path: Path) -> str:
    """Where the wheel is in the job's directory. Hidden: no file of a workspace has such a name."""
    return f".wheel/{path.name}"


def install(hosts: Sequence[Host], directories: Sequence[str], wheel: Path) -> list[Host]:
    """Install the wheel, which is there already, in each job directory: the hosts, with the Pythons that have it.

    Raises PeerError that names every host on which it failed.
    """

    def installed(host: Host, directory: str) -> Host | str:
        command = [*shlex.split(host.python), "-", directory, wheel_name(wheel)]
        try:
            python = run_on(host, command, content=script("install_wheel").encode(), timeout=_WITHIN).decode().strip()
        except PeerError as error:
            return f"{error}; all that pip said is in {directory}/log/install.log"
        return host.model_copy(update={"python": shlex.quote(python)})

    with ThreadPoolExecutor(len(hosts)) as pool:
        answers = list(pool.map(installed, hosts, directories))
    problems = [answer for answer in answers if isinstance(answer, str)]
    if problems:
        listed = "\n".join(f"  {problem}" for problem in problems)
        raise PeerError(f"nothing was started: {wheel.name} could not be installed:\n{listed}")
    return [answer for answer in answers if isinstance(answer, Host)]
