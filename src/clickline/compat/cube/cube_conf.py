"""cube.conf of the older cube client: a JSON array, one object per dictionary, saying where its shards are."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from clickline.compat.cube.conf_files import explained, read_conf
from clickline.errors import JobError

_LONGEST = 16 << 20
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
        raise JobError(f"{source} is nested too deeply.") from None
    except ValueError as error:
        raise JobError(f"{source} is no JSON: {error}.") from None
    if not isinstance(items, list) or not items:
        raise JobError(f"{source} must be an array with an object for each dictionary.")
    found: list[CubeDictionary] = []
    for place, item in enumerate(items):
        try:
            found.append(CubeDictionary.model_validate(item))
        except ValidationError as error:
            name = item.get("dict_name") if isinstance(item, dict) else None
            raise explained(error, source, prefix=f"[{place}{f' {name!r:.60}' if name else ''}] ") from None
    names = [dictionary.dict_name for dictionary in found]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise JobError(f"{source}: dict_name {repeated[0]!r} is there twice.")
    return found


def _hosts(node: ConfAddress | ConfAddressList) -> list[str]:
    if isinstance(node, ConfAddress):
        return [f"[{node.ip}]:{node.port}" if ":" in node.ip else f"{node.ip}:{node.port}"]
    return node.ipport_list.removeprefix("list://").split(",")
