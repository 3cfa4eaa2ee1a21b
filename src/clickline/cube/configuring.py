"""What transfer is told: a YAML file with the older keys, or transfer.conf itself.

dict_name: ctr
donefile_address: /data/versions          # or any URL
output_address: /data/builds
tmp_address: /data/transfer
transfer_address: 10.0.0.5                # how agents reach this machine; optional
shards:                                   # replicas of each
  - [{agent: "http://10.0.0.1:8001", cube: "tcp:10.0.0.1:8027", deploy_path: /cube}]
mode: base_delta
interval: 10
wait: 5
keep: 3
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import httpx
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from clickline.cube.builds import TransferPlan
from clickline.cube.instances import Replica
from clickline.errors import JobError
from clickline.publish.older.confs import explained
from clickline.publish.older.transfer_conf import read_transfer_conf

_LIMIT = 1 << 20
_DEEPEST = 32
Text = Annotated[str, Field(min_length=1)]


class _Plain(yaml.SafeLoader):
    """Without aliases, a few of which stand for more than any memory holds, and without brackets that never end."""

    def fetch_flow_collection_start(self, kind: type[yaml.Token]) -> None:
        if self.flow_level >= _DEEPEST:
            raise yaml.YAMLError(f"line {self.line + 1}: nested too deeply")
        super().fetch_flow_collection_start(kind)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError(f"line {self.line + 1}: aliases are not taken")
        return super().compose_node(parent, index)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReplicaKeys(_Strict):
    agent: Text
    cube: Text
    deploy_path: str = ""

    @field_validator("agent")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        try:
            httpx.URL(_url(value))
            urlsplit(_url(value))
        except (ValueError, httpx.InvalidURL):
            raise ValueError("an address such as http://10.0.0.1:8001") from None
        return value


class TransferKeys(_Strict):
    """The YAML file."""

    dict_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
    donefile_address: Text
    output_address: Path
    tmp_address: Path
    shards: Annotated[list[Annotated[list[ReplicaKeys], Field(min_length=1)]], Field(min_length=1, max_length=4096)]
    transfer_address: str = ""
    wget_port: Annotated[int, Field(ge=0, le=65535)] = 0
    mode: Literal["base_only", "base_delta"] = "base_delta"
    interval: Annotated[float, Field(gt=0)] = 10.0
    wait: Annotated[float, Field(ge=0)] = 5.0
    keep: Annotated[int, Field(ge=1)] = 3
    threads: Annotated[int, Field(ge=0)] = 0


def read_transfer(path: Path) -> TransferKeys:
    """A file whose name ends in .conf is the older one, any other is YAML."""
    if path.suffix == ".conf":
        return _from_conf(path)
    try:
        if path.stat().st_size > _LIMIT:
            raise JobError(f"{path}: larger than {_LIMIT} bytes; not a description of a transfer")
        found = yaml.load(path.read_text(encoding="utf-8"), _Plain)  # noqa: S506  (a SafeLoader, and stricter)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise JobError(f"{path}: cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise JobError(f"{path}: keys and values are expected, such as dict_name: ctr")
    return _validated(found, path)


def plan_of(keys: TransferKeys, **changes: Any) -> TransferPlan:
    """What is to be done. `changes` are from the command line."""
    return TransferPlan(
        name=keys.dict_name,
        replicas=[
            [Replica(agent=_url(one.agent), cube=one.cube, deploy_path=one.deploy_path) for one in shard]
            for shard in keys.shards
        ],
        output=keys.output_address,
        scratch=keys.tmp_address,
        **{
            "interval": keys.interval,
            "patience": keys.wait,
            "keep": keys.keep,
            "threads": keys.threads,
            "mode": keys.mode,
            "donefile": keys.donefile_address,
            "deploy_path": keys.shards[0][0].deploy_path,
            **{name: value for name, value in changes.items() if value is not None},
        },
    )


def _from_conf(path: Path) -> TransferKeys:
    conf = read_transfer_conf(path)
    default = conf.default
    shards: list[list[dict[str, str]]] = [[] for _ in range(default.shard_num)]
    for one in conf.instances:
        host = f"[{one.cube_host}]" if ":" in one.cube_host else one.cube_host
        agent = f"[{one.agent_host}]" if ":" in one.agent_host else one.agent_host
        shards[one.shard].append(
            {
                "agent": f"http://{agent}:{one.agent_port}",
                "cube": f"tcp:{host}:{one.cube_port}",
                "deploy_path": one.deploy_path,
            }
        )
    facts = {
        "dict_name": default.dict_name,
        "donefile_address": default.donefile_address,
        "output_address": default.output_address,
        "tmp_address": default.tmp_address,
        "transfer_address": default.transfer_address,
        "wget_port": default.wget_port,
        "mode": default.mode,
        "shards": shards,
    }
    return _validated(facts, path)


def _validated(facts: dict[str, Any], path: Path) -> TransferKeys:
    try:
        return TransferKeys.model_validate(facts)
    except ValidationError as error:
        raise explained(error, str(path), prefix="") from None


def _url(agent: str) -> str:
    return agent.rstrip("/") if agent.startswith(("http://", "https://")) else f"http://{agent}"
