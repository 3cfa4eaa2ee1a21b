"""conf.py of PaddlePaddle's ssh scripts, read without executing it: hosts, directory and ports as our own job has them.

Only assignments of literals are read. What a name means here:

    HOSTS                            cluster.hosts: [USER@]HOST[:SSH PORT], a server and a trainer on each
    ROOT_DIR                         cluster.root
    PADDLE_PORT                      cluster.port
    PADDLE_NIC, LD_LIBRARY_PATH      nothing: addresses are those of HOSTS, and the Python there finds its libraries
    PADDLE_PORTS_NUM…                nothing: a server has one port, whatever the number of its tables
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clickline.errors import JobError

_LIMIT = 1 << 20
_HOST = re.compile(r"(?P<destination>(?:[\w.-]+@)?[\w.-]+)(?::(?P<port>\d{1,5}))?")
_WITHOUT_EFFECT = {
    "PADDLE_NIC": "servers listen on the addresses of HOSTS; give a host another one by cluster.hosts[].address",
    "PADDLE_PORTS_NUM": "a server has one port",
    "PADDLE_PORTS_NUM_FOR_SPARSE": "a server has one port, for sparse tables too",
    "LD_LIBRARY_PATH": "the Python on each host finds its own libraries",
}


@dataclass(frozen=True, slots=True)
class ClusterConf:
    """What the file says, as keys of our job, and what it says in vain."""

    cluster: dict[str, Any]
    """Keys of `cluster`."""
    notices: list[str] = field(default_factory=list)


def read_conf_py(path: Path) -> ClusterConf:
    """Read a conf.py. Raises JobError that names the line."""
    try:
        if path.stat().st_size > _LIMIT:
            raise JobError(f"{path}: larger than {_LIMIT} bytes; not a conf.py")
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except (OSError, SyntaxError, ValueError) as error:
        raise JobError(f"{path}: cannot be read: {error}") from None
    values, notices = _assignments(tree, path)
    cluster: dict[str, Any] = {}
    if not isinstance(values.get("HOSTS"), list) or not values["HOSTS"]:
        raise JobError(f"{path}: HOSTS must be a list of hosts, such as HOSTS = ['root@10.0.0.1', 'root@10.0.0.2']")
    cluster["hosts"] = [_host(value, path) for value in values["HOSTS"]]
    if "ROOT_DIR" in values:
        cluster["root"] = _typed(values["ROOT_DIR"], str, "ROOT_DIR", path)
    if "PADDLE_PORT" in values:
        cluster["port"] = _typed(values["PADDLE_PORT"], int, "PADDLE_PORT", path)
    notices += [f"{name} of {path} has no effect: {why}" for name, why in _WITHOUT_EFFECT.items() if name in values]
    return ClusterConf(cluster, notices)


def _assignments(tree: ast.Module, path: Path) -> tuple[dict[str, Any], list[str]]:
    """Names with literal values, and what else stands in the file."""
    values: dict[str, Any] = {}
    notices = []
    for statement in tree.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            try:
                if isinstance(target, ast.Name):
                    values[target.id] = ast.literal_eval(statement.value)
                    continue
            except ValueError:
                pass
        notices.append(f"{path}, line {statement.lineno} is not read: conf.py is not executed; write a plain value")
    return values, notices


def _host(value: object, path: Path) -> dict[str, Any]:
    match = _HOST.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise JobError(f"{path}: HOSTS has {value!r}; expected [USER@]HOST or [USER@]HOST:SSH_PORT")
    return {"host": match["destination"], **({"ssh_port": int(match["port"])} if match["port"] else {})}


def _typed(value: object, kind: type, name: str, path: Path) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise JobError(f"{path}: {name} is {value!r}; expected {'text' if kind is str else 'a whole number'}")
    return value
