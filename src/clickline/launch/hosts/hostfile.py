"""A hostfile, as MPI has it: one host a line, `HOST [slots=N]`, N trainers on it and one server; # begins a comment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from clickline.errors import JobError

_LIMIT = 1 << 20
_LINE = re.compile(
    r"(?P<host>\S+?)(?::(?P<port>\d{1,5}))?(?:\s+slots\s*=\s*(?P<slots>\d{1,4}))?(?:\s+max[-_]slots\s*=\s*\d+)?"
)


def read_hostfile(path: Path) -> list[dict[str, Any]]:
    """The hosts, as `cluster.hosts` of a job has them. Raises JobError that names the line."""
    try:
        if path.stat().st_size > _LIMIT:
            raise JobError(f"{path}: larger than {_LIMIT} bytes; not a hostfile")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise JobError(f"{path}: cannot be read: {error}") from None
    hosts = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise JobError(f"{path}, line {number}: {text!r}; expected HOST or HOST slots=2")
        host: dict[str, Any] = {"host": match["host"]}
        if match["port"]:
            host["ssh_port"] = int(match["port"])
        if match["slots"]:
            host["trainers"] = int(match["slots"])
        hosts.append(host)
    if not hosts:
        raise JobError(f"{path}: no hosts in it; expected one a line, such as 10.0.0.1 slots=2")
    return hosts
