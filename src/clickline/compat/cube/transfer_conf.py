"""transfer.conf of Cube's transfer: what it delivers, from where, to which agents and servers.

Sections in brackets, `key: value` or `key=value`. A comment is a line that begins with `#`, or what follows ` #` or
` //` on a line. All keys are required, as they always were; what is wrong is said for all of them at once.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from clickline.compat.cube.conf_files import explained, read_conf
from clickline.config.loading.reader import checked_settings
from clickline.cube.transfer.transfer_settings import TransferSettings, read_transfer_yaml
from clickline.errors import JobError
from clickline.net.addresses import host_and_port

_LONGEST = 1 << 20
_COMMENT = re.compile(r"\s(#|//).*")
_ADDRESS_KEY = re.compile(r"(agent|cube)(\d{1,4})_(\d{1,4})", re.ASCII)
Text = Annotated[str, StringConstraints(min_length=1)]
Port = Annotated[int, Field(ge=1, le=65535)]


class ConfTransfer(BaseModel):
    """The section [default]."""

    model_config = ConfigDict(frozen=True)
    dict_name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
    mode: Literal["base_only", "base_delta"]
    download_mode: Literal["http", "ftp"]
    wget_port: Port
    buildtool_local: Text
    donefile_address: Text
    output_address: Text
    tmp_address: Text
    shard_num: Annotated[int, Field(ge=1, le=4096)]
    copy_num: Annotated[int, Field(ge=1, le=4096)]
    deploy_path: Text
    transfer_address: Text


class ConfInstance(BaseModel):
    """One replica of one shard: its agent, and the server that the agent drives."""

    model_config = ConfigDict(frozen=True)
    shard: int
    copy_number: int
    agent_host: str
    agent_port: Port
    cube_host: str
    cube_port: Port
    deploy_path: str


class TransferConf(BaseModel):
    """The whole file."""

    model_config = ConfigDict(frozen=True)
    default: ConfTransfer
    instances: list[ConfInstance]
    """By shard, then by copy."""


def read_transfer(path: Path) -> TransferSettings:
    """Transfer's settings: a file whose name ends in .conf is Cube's, any other is YAML. Raises JobError."""
    return _settings_of(path) if path.suffix == ".conf" else read_transfer_yaml(path)


def read_transfer_conf(path: str | os.PathLike[str]) -> TransferConf:
    return parse_transfer_conf(read_conf(path, limit=_LONGEST), source=str(path))


def parse_transfer_conf(text: str, *, source: str = "transfer.conf") -> TransferConf:
    sections = _sections(text, source)
    if "default" not in sections:
        raise JobError(f"{source}: the section [default] is missing")
    try:
        default = ConfTransfer.model_validate(sections["default"])
    except ValidationError as error:
        raise explained(error, source, prefix="[default] ") from None
    addresses = sections.get("cube_agent", {})
    known = [(shard, copy) for shard in range(default.shard_num) for copy in range(default.copy_num)]
    wanted = {f"{kind}{shard}_{copy}" for shard, copy in known for kind in ("agent", "cube")}
    problems = [f"[cube_agent] {name} is missing" for name in sorted(wanted - set(addresses))[:20]]
    for name in sorted(set(addresses) - wanted)[:20]:
        hint = (
            f"there are {default.shard_num} shards × {default.copy_num} copies" if _ADDRESS_KEY.fullmatch(name) else ""
        )
        problems.append(f"[cube_agent] {name} is not known{': ' + hint if hint else ''}")
    if problems:
        raise JobError(f"{source}: " + "; ".join(problems))
    return TransferConf(default=default, instances=[_instance(addresses, *each, source) for each in known])


def _instance(addresses: dict[str, str], shard: int, copy: int, source: str) -> ConfInstance:
    agent, cube = f"agent{shard}_{copy}", f"cube{shard}_{copy}"
    agent_host, agent_port = _address(addresses[agent], agent, addresses[agent], "IP:PORT", source)
    address, _, path = addresses[cube].partition("/")
    expected = "IP:PORT:/DEPLOY/PATH"
    if not address.endswith(":") or not path:
        raise JobError(f"{source}: [cube_agent] {cube} must be {expected}, got '{addresses[cube]}'")
    cube_host, cube_port = _address(address[:-1], cube, addresses[cube], expected, source)
    return ConfInstance(
        shard=shard,
        copy_number=copy,
        agent_host=agent_host,
        agent_port=agent_port,
        cube_host=cube_host,
        cube_port=cube_port,
        deploy_path="/" + path,
    )


def _address(text: str, name: str, value: str, expected: str, source: str) -> tuple[str, int]:
    if re.fullmatch(r".+:[0-9]{1,5}", text):
        host, port = host_and_port(text)
        if host and 1 <= port <= 65535:
            return host, port
    raise JobError(f"{source}: [cube_agent] {name} must be {expected}, got '{value}'")


def _sections(text: str, source: str) -> dict[str, dict[str, str]]:
    sections: dict[str, dict[str, str]] = {}
    inside: dict[str, str] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        # A comment needs a space before it, so that `//` in a URL is none; the added space is for the start of a line.
        line = "" if raw.lstrip().startswith("#") else _COMMENT.sub("", " " + raw).strip()
        if not line:
            continue
        if line.startswith("["):
            name = line.strip("[]").strip()
            if not line.endswith("]") or not name or name in sections:
                raise JobError(f"{source}, line {number}: '{line:.60}' is not a new section such as [default]")
            inside = sections[name] = {}
            continue
        # The first separator only: addresses in the value have colons of their own.
        split = re.search(r"[:=]", line)
        key, value = (line[: split.start()].strip(), line[split.end() :].strip()) if split else ("", "")
        if not key:
            raise JobError(f"{source}, line {number}: 'key: value' is expected, got '{line:.60}'")
        if inside is None or key in inside:
            reason = "comes before the first section" if inside is None else "is there twice"
            raise JobError(f"{source}, line {number}: {key:.60} {reason}")
        inside[key] = value
    return sections


def _settings_of(path: Path) -> TransferSettings:
    conf = read_transfer_conf(path)
    default = conf.default
    shards: list[list[dict[str, str]]] = [[] for _ in range(default.shard_num)]
    for instance in conf.instances:
        agent, cube = _in_brackets(instance.agent_host), _in_brackets(instance.cube_host)
        shards[instance.shard].append(
            {
                "agent": f"http://{agent}:{instance.agent_port}",
                "cube": f"tcp:{cube}:{instance.cube_port}",
                "deploy_path": instance.deploy_path,
            }
        )
    values = {
        "dict_name": default.dict_name,
        "donefile_address": default.donefile_address,
        "output_address": default.output_address,
        "tmp_address": default.tmp_address,
        "transfer_address": default.transfer_address,
        "wget_port": default.wget_port,
        "mode": default.mode,
        "shards": shards,
    }
    return checked_settings(values, TransferSettings, source=str(path))


def _in_brackets(host: str) -> str:
    """A host as it stands before a port."""
    return f"[{host}]" if ":" in host else host
