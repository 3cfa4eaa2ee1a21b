"""Transfer's state in the older shapes: whole numbers of versions as strings, metas as text."""

from __future__ import annotations

import json
from typing import Any

from clickline.cube.shard_files import build_name, part_name
from clickline.cube.transfer.builder import find_build, meta_of
from clickline.cube.transfer.ledger import Deployment
from clickline.cube.transfer.transfer import Transfer
from clickline.net.web_server import decimal


class Telling:
    """What transfer tells to who asks."""

    def __init__(self, transfer: Transfer, *, wget_port: int) -> None:
        self._transfer, self._wget_port = transfer, wget_port

    def info(self) -> dict[str, Any]:
        transfer, plan, ledger = self._transfer, self._transfer.plan, self._transfer.ledger
        instances = transfer.instances
        rolling = ledger.rolling
        version = rolling.version if rolling else 0
        return {
            "dict_name": plan.name,
            "dict_mode": plan.mode,
            "shard_num": plan.shards,
            "copy_num": max(map(len, plan.replicas)),
            "inst_num": len(instances),
            "deploy_path": plan.deploy_path,
            "donefile_addr": plan.donefile,
            "output_addr": str(plan.output),
            "tmp_addr": str(plan.scratch),
            "download_mode": plan.download_mode,
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

    def instances(self) -> list[dict[str, Any]]:
        transfer = self._transfer
        ledger = transfer.ledger
        links = {one.version: one.link for one in (*ledger.past, ledger.current, ledger.rolling) if one is not None}
        told = []
        for one in transfer.instances:
            link = links.get(one.version)
            facts = (
                {} if link is None else {"mode": link.mode, "depend": str(link.base), "id": link.id, "key": link.key}
            )
            found = one.to_dict(name=transfer.plan.name, step=facts)
            made = link and find_build(transfer.plan.output, link.base, link.version)
            told.append({**found, "builded_time": int(made.facts["time"]) if made else found["builded_time"]})
        return told

    def version(self, one: Deployment) -> dict[str, Any]:
        plan = self._transfer.plan
        metas = {str(shard): json.dumps(self.meta(one, shard)) for shard in range(plan.shards)}
        output = str(plan.output / build_name(one.link.base, one.version))
        return one.to_dict(name=plan.name, output=output, metas=metas)

    def meta(self, one: Deployment, shard: int) -> dict[str, Any]:
        made = find_build(self._transfer.plan.output, one.link.base, one.version)
        return {} if made is None else meta_of(made.file(shard))

    def find_meta(self, *, name: str, version: str, depend: str, shard: str, split: str) -> Any:
        """What was registered, else what the builder knows; None if neither."""
        transfer = self._transfer
        registered = transfer.ledger.metas.get("_".join((name, version, depend, shard, split)))
        if registered is not None:
            return json.loads(registered)
        number, base, part = decimal(version), decimal(depend), decimal(shard)
        if name != transfer.plan.name or number is None or base is None or part is None:
            return None
        made = find_build(transfer.plan.output, base, number)
        return None if made is None or part >= transfer.plan.shards else meta_of(made.file(part))

    def scaler(self, shard: int) -> list[dict[str, Any]]:
        """What a new replica of a shard has to load, in order."""
        transfer = self._transfer
        current = transfer.ledger.current
        if current is None:
            return []
        found = []
        for link in current.chain:
            part = part_name(transfer.plan.name, shard)
            found.append(
                {
                    "name": transfer.plan.name,
                    "version": str(link.version),
                    "depend": str(link.base),
                    "id": link.id,
                    "key": link.key,
                    "shard": shard,
                    "mode": link.mode,
                    "data_source": transfer.address_of(f"{build_name(link.base, link.version)}/{part}"),
                }
            )
        return found
