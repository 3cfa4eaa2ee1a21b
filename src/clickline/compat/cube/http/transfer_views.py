"""Transfer's state in Cube's shapes: Cube's names and codes of states, version numbers as strings, metas as text."""

from __future__ import annotations

import json
from typing import Any, TypedDict
from urllib.parse import urlsplit

from clickline.compat.cube.http.meta_info import MetaInfo, meta_info
from clickline.cube.builder.build_record import find_build
from clickline.cube.builder.version_source import ChainLink
from clickline.cube.shard_files import build_name, part_name
from clickline.cube.transfer.instance import Instance, InstanceState
from clickline.cube.transfer.ledger import Deployment, Phase
from clickline.cube.transfer.transfer import Transfer
from clickline.net.web_server import decimal

INSTANCE_STATES: dict[InstanceState, tuple[str, int]] = {
    InstanceState.INITIAL: ("Init", 10),
    InstanceState.DOWNLOADING: ("Downloading", 20),
    InstanceState.DOWNLOAD_FAILED: ("Download_Failed", 30),
    InstanceState.DOWNLOADED: ("Download_Succ", 40),
    InstanceState.LOADING: ("Reloading", 50),
    InstanceState.LOAD_FAILED: ("Reload_Failed", 60),
    InstanceState.LOADED: ("Reload_Succ", 70),
    InstanceState.SWITCHING: ("Enabling", 80),
    InstanceState.SWITCH_FAILED: ("Enable_Failed", 90),
    InstanceState.IN_SERVICE: ("Enable_Succ", 100),
    InstanceState.DEAD: ("Dead", 250),
}
"""Cube's name and code of each state of an instance. Cube has more, which no instance of ours is ever in."""
PHASES: dict[Phase, tuple[str, int]] = {
    Phase.CREATED: ("Trigging", 10),
    Phase.DOWNLOADING: ("Downloading", 40),
    Phase.LOADING: ("Reloading", 60),
    Phase.SWITCHING: ("Enabling", 80),
    Phase.FINISHED: ("Finished", 90),
}
"""Cube's name and code of each phase of a version."""
_TIMES = {
    "download_start_time": InstanceState.DOWNLOADING,
    "downloaded_time": InstanceState.DOWNLOADED,
    "reload_start_time": InstanceState.LOADING,
    "reloaded_time": InstanceState.LOADED,
    "enable_start_time": InstanceState.SWITCHING,
    "enabled_time": InstanceState.IN_SERVICE,
}
View = dict[str, Any]
"""A JSON object of Cube's."""


class LinkView(TypedDict):
    """Cube's words for a version: `depend` and `key` are its base, `id` is itself."""

    mode: str
    depend: str
    id: str
    key: str


def link_view(link: ChainLink) -> LinkView:
    return {"mode": link.kind, "depend": str(link.base), "id": str(link.version), "key": str(link.base)}


class TransferViews:
    """Answers of Cube's status API."""

    def __init__(self, transfer: Transfer, *, wget_port: int) -> None:
        self._transfer, self._wget_port = transfer, wget_port

    def info(self) -> View:
        transfer, plan, ledger = self._transfer, self._transfer.plan, self._transfer.ledger
        instances = transfer.instances
        rolling = ledger.rolling
        version = rolling.version if rolling else 0
        return {
            "dict_name": plan.name,
            "dict_mode": plan.mode,
            "shard_num": len(transfer.layout.shards),
            "copy_num": max(map(len, transfer.layout.shards), default=0),
            "inst_num": len(instances),
            "deploy_path": plan.deploy_path,
            "donefile_addr": plan.donefile,
            "output_addr": str(transfer.output),
            "tmp_addr": str(plan.scratch),
            "download_mode": "http",
            "wget_port": self._wget_port,
            "download_inst": sum(one.has_downloaded(version) for one in instances) if rolling else 0,
            "reload_insts": sum(one.has_loaded(version) for one in instances) if rolling else 0,
            "enable_insts": sum(one.serves(version, rolling.number) for one in instances) if rolling else 0,
            "instances": self.instances(),
            "wait_version_info": self.version(rolling) if rolling else {},
            "current_version_info": [self.version(one) for one in ledger.deployed(plan.keep)[::-1]],
            "problem": transfer.problem,
            "held": ledger.held,
        }

    def instances(self) -> list[View]:
        ledger = self._transfer.ledger
        deployments = (*ledger.past, ledger.current, ledger.rolling)
        links = {one.version: one.link for one in deployments if one is not None}
        return [self._instance(one, links.get(one.version)) for one in self._transfer.instances]

    def history(self) -> list[View]:
        """Versions that were rolled out or given up, newest first."""
        return [self.version(one) for one in self._transfer.ledger.past[::-1]]

    def version(self, deployment: Deployment) -> View:
        plan, link = self._transfer.plan, deployment.link
        metas = {
            str(shard): json.dumps(self._meta(link, shard) or {}) for shard in range(len(self._transfer.layout.shards))
        }
        name, code = PHASES[deployment.phase]
        return {
            "dict_name": plan.name,
            "version": str(link.version),
            **link_view(link),
            "input": link.input,
            "output": str(self._transfer.output / build_name(link.base, link.version)),
            "status": code,
            "status_str": name,
            "finish_time": int(deployment.finish_time),
            "create_time": int(deployment.create_time),
            "meta_infos": metas,
            "switch": deployment.number,
            "behind": deployment.behind,
            "seconds": {PHASES[phase][0]: seconds for phase, seconds in deployment.seconds.items()},
        }

    def find_meta(self, *, name: str, version: str, depend: str, shard: str, split: str) -> Any:
        """The meta that was registered, else that of the build; None if there is neither."""
        transfer = self._transfer
        registered = transfer.ledger.metas.get("_".join((name, version, depend, shard, split)))
        if registered is not None:
            return json.loads(registered)
        number, base, part = decimal(version), decimal(depend), decimal(shard)
        if name != transfer.plan.name or number is None or base is None or part is None:
            return None
        build = find_build(transfer.output, base, number)
        return None if build is None or part >= len(transfer.layout.shards) else meta_info(build.file(part))

    def scaler(self, shard: int) -> list[View]:
        """What a new replica of a shard has to load, in order."""
        transfer = self._transfer
        current = transfer.ledger.current
        part = part_name(transfer.plan.name, shard)
        return [
            {
                "name": transfer.plan.name,
                "version": str(link.version),
                **link_view(link),
                "shard": shard,
                "data_source": transfer.address_of(f"{build_name(link.base, link.version)}/{part}"),
            }
            for link in ([] if current is None else current.chain)
        ]

    def _instance(self, instance: Instance, link: ChainLink | None) -> View:
        host, port = _host_and_port(instance.replica.cube)
        agent = urlsplit(instance.replica.agent)
        build = find_build(self._transfer.output, link.base, link.version) if link is not None else None
        name, code = INSTANCE_STATES[instance.state]
        nothing: LinkView = {"mode": "", "depend": "", "id": "", "key": ""}
        return {
            "dict_name": self._transfer.plan.name,
            "version": str(instance.version or ""),
            **(nothing if link is None else link_view(link)),
            "shard": instance.shard,
            "source": instance.source,
            "deploy_path": instance.replica.deploy_path,
            "ip": host,
            "port": port,
            "agent_ip": agent.hostname or "",
            "agent_port": str(agent.port or ""),
            "status_id": code,
            "status": name,
            "message": instance.message,
            "builded_time": int(build.record.time) if build is not None else 0,
            **{key: int(instance.times.get(state, 0.0)) for key, state in _TIMES.items()},
            "create_time": int(instance.created),
        }

    def _meta(self, link: ChainLink, shard: int) -> MetaInfo | None:
        build = find_build(self._transfer.output, link.base, link.version)
        return None if build is None else meta_info(build.file(shard))


def _host_and_port(address: str) -> tuple[str, str]:
    if address.startswith("unix:"):
        return address, ""
    host, _, port = address.removeprefix("tcp:").rpartition(":")
    return host.strip("[]"), port
