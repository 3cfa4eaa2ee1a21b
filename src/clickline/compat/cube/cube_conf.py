"""cube.conf of Cube's client: a JSON array, one object per dictionary, with the addresses of its shards."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from clickline.compat.cube.conf_files import explained, read_conf
from clickline.cube.cube_client import Cube
from clickline.errors import JobError

_LONGEST = 16 << 20
_DEFAULT_TIMEOUT = 1.0
"""Seconds, where the file has 0."""
Milliseconds = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class ConfAddress(_Strict):
    """{"ip", "port"}: one server."""

    ip: Annotated[str, StringConstraints(min_length=1)]
    port: Annotated[int, Field(ge=1, le=65535)]


class ConfAddressList(_Strict):
    """{"ipport_list": "list://a:1,b:2"}: the replicas of one shard."""

    ipport_list: Annotated[str, StringConstraints(pattern=r"^list://[^\s,]+:\d{1,5}(,[^\s,]+:\d{1,5})*$")]


class CubeDictionary(_Strict):
    """One dictionary. `nodes` are in the order of shards."""

    dict_name: Annotated[str, StringConstraints(min_length=1)]
    shard: Annotated[int, Field(ge=1, le=4096)]
    dup: Annotated[int, Field(ge=1)]
    timeout: Milliseconds
    retry: Annotated[int, Field(ge=0)]
    backup_request: int
    """Milliseconds until another replica is asked too; 0 or less: never."""
    type: Literal["ipport", "ipport_list", "ipport_parallel"]
    load_balancer: str = "rr"
    nodes: list[ConfAddress | ConfAddressList] = []

    @model_validator(mode="after")
    def _nodes_are_those_of_the_type(self) -> Self:
        wanted = ConfAddressList if self.type == "ipport_list" else ConfAddress
        form = '{"ipport_list": "list://HOST:PORT,…"}' if wanted is ConfAddressList else '{"ip": …, "port": …}'
        needed = 1 if self.type == "ipport_parallel" else self.shard
        if not all(isinstance(node, wanted) for node in self.nodes):
            raise ValueError(f"such that its nodes are {form}, since its type is {self.type}")
        if len(self.nodes) < needed:
            raise ValueError(f"such that it has {needed} nodes, one for each shard; it has {len(self.nodes)}")
        return self

    def shards(self) -> list[list[str]]:
        """HOST:PORT of the replicas of each shard."""
        if self.type == "ipport_parallel":  # one server has it all
            return [_hosts(self.nodes[0]) for _ in range(self.shard)]
        return [_hosts(node) for node in self.nodes[: self.shard]]


def read_cube_conf(path: str | os.PathLike[str]) -> list[CubeDictionary]:
    return parse_cube_conf(read_conf(path, limit=_LONGEST), source=str(path))


def parse_cube_conf(text: str, *, source: str = "cube.conf") -> list[CubeDictionary]:
    try:
        items: Any = json.loads(text)
    except RecursionError:
        raise JobError(f"{source} is nested too deeply") from None
    except ValueError as error:
        raise JobError(f"{source} is not JSON: {error}") from None
    if not isinstance(items, list) or not items:
        raise JobError(f"{source} must be an array with an object for each dictionary")
    dictionaries: list[CubeDictionary] = []
    for index, item in enumerate(items):
        try:
            dictionaries.append(CubeDictionary.model_validate(item))
        except ValidationError as error:
            name = item.get("dict_name") if isinstance(item, dict) else None
            raise explained(error, source, prefix=f"[{index}{f' {name!r:.60}' if name else ''}] ") from None
    names = [dictionary.dict_name for dictionary in dictionaries]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise JobError(f"{source}: dict_name {repeated[0]!r} is there twice")
    return dictionaries


def _hosts(node: ConfAddress | ConfAddressList) -> list[str]:
    if isinstance(node, ConfAddress):
        return [f"[{node.ip}]:{node.port}" if ":" in node.ip else f"{node.ip}:{node.port}"]
    return node.ipport_list.removeprefix("list://").split(",")


def connect_by_conf(path: str | os.PathLike[str], *, token: bytes, name: str = "") -> Cube:
    """A client of the dictionary that a cube.conf describes, with its timeouts and retries.

    `name` may be left out where the file has only one dictionary.
    """
    dictionaries = read_cube_conf(path)
    chosen = [one for one in dictionaries if not name or one.dict_name == name]
    if len(chosen) != 1:
        listed = ", ".join(one.dict_name for one in dictionaries)
        raise JobError(f"{path}: which dictionary? It has: {listed}")
    (conf,) = chosen
    return Cube.connect(
        [[_wire_address(host) for host in replicas] for replicas in conf.shards()],
        name=conf.dict_name,
        token=token,
        # The file has milliseconds, the client takes seconds.
        timeout=conf.timeout / 1000 or _DEFAULT_TIMEOUT,
        hedge=max(0, conf.backup_request) / 1000,
        retries=conf.retry,
    )


def _wire_address(host: str) -> str:
    return host if host.startswith(("tcp:", "unix:")) else f"tcp:{host}"
