"""Hosts from a file of their own, in place of the job's: a conf.py of PaddlePaddle v1, a hostfile of MPI, or YAML.

A name that ends in .py is a conf.py, one in .yaml, .yml or .json is YAML, and every other file is a hostfile. YAML is a
list like `cluster.hosts`, where a text stands for {host: TEXT}, or a mapping with `hosts` and other keys of `cluster`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clickline.compat.paddle_v1.conf_py import read_conf_py
from clickline.config.loading.yaml_lines import UnreadableError, parse
from clickline.errors import JobError
from clickline.launch.hosts.hostfile import read_hostfile

_LIMIT = 1 << 20
_YAML = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class HostList:
    """What the file says, as keys of the job's `cluster`."""

    cluster: dict[str, Any]
    notices: list[str] = field(default_factory=list)
    """What it says in vain."""

    def overrides(self, *, python: str = "") -> list[str]:
        """As texts for --set. `python` is for hosts that the file gives none."""
        hosts = [({"python": python} if python else {}) | host for host in self.cluster["hosts"]]
        return [f"cluster.{key}={json.dumps(value)}" for key, value in {**self.cluster, "hosts": hosts}.items()]


def read_host_list(path: Path) -> HostList:
    """Read a file of hosts. Raises JobError that says what was expected."""
    if path.suffix == ".py":
        conf = read_conf_py(path)
        return HostList(conf.cluster, conf.notices)
    if path.suffix in _YAML:
        return HostList(_read_yaml(path))
    return HostList({"hosts": read_hostfile(path)})


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LIMIT:
            raise JobError(f"{path}: larger than {_LIMIT} bytes; not a list of hosts")
        tree = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, UnreadableError) as error:
        raise JobError(f"{path}: cannot be read: {error}") from None
    if tree.problems:
        raise JobError(f"{path}: {tree.problems[0]}", errors=tree.problems)
    cluster = tree.value if isinstance(tree.value, dict) else {"hosts": tree.value}
    hosts = cluster.get("hosts")
    if not isinstance(hosts, list) or not hosts or not all(isinstance(host, dict | str) for host in hosts):
        raise JobError(f"{path}: expected a list of hosts, such as [node1, {{host: node2, trainers: 2}}]")
    return {**cluster, "hosts": [{"host": host} if isinstance(host, str) else host for host in hosts]}
