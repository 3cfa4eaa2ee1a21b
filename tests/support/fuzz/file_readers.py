"""Readers of files that come from elsewhere or outlive a process: each takes bytes and says whether it believed them.

What a reader may throw is caught here; anything else is a finding. What was believed is then used.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from clickline import _native
from clickline.compat.cube import cube_donefiles
from clickline.compat.cube.cube_conf import read_cube_conf
from clickline.compat.cube.http.agent_routes import run_cube_command
from clickline.compat.cube.http.meta_info import meta_info
from clickline.compat.cube.http.transfer_views import TransferViews
from clickline.compat.cube.product_source import DonefileSource, chain_of
from clickline.compat.cube.transfer_conf import read_transfer
from clickline.cube.agent import agent
from clickline.cube.agent.agent import Agent, AgentOptions
from clickline.cube.builder.build_record import find_build
from clickline.cube.layouts.layout import Replica, single_layout
from clickline.cube.layouts.layout_source import FixedLayouts
from clickline.cube.server.loaded_versions import LoadedVersions
from clickline.cube.shard_files import part_name, read_shard
from clickline.cube.transfer.rollback_target import next_number
from clickline.cube.transfer.transfer import Transfer, TransferPlan
from clickline.cube.transfer.transfer_settings import plan_of
from clickline.errors import ClicklineError, DataError, JobError, VersionError
from clickline.versions import donefile, manifest
from support.fuzz.services import NAME, TOKEN

ASKED = np.arange(60, dtype=np.uint64)


def _sendable(facts: Any) -> None:
    json.dumps(facts, ensure_ascii=False, allow_nan=False).encode()


class Readers:
    """All of them, with a directory to work in."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.targets: dict[str, Callable[[bytes], bool]] = {
            "manifest": self.manifest,
            "versions": self.versions,
            "base": lambda data: self.products(data, "base"),
            "patch": lambda data: self.products(data, "patch"),
            "shard-tar": self.shard_tar,
            "shard-facts": self.shard_facts,
            "build-facts": self.build_facts,
            "transfer-state": self.transfer_state,
            "cube-state": self.cube_state,
            "download-state": self.download_state,
            "transfer-conf": lambda data: self.transfer_conf(data, "transfer.conf"),
            "transfer-yaml": lambda data: self.transfer_conf(data, "transfer.yaml"),
            "cube-conf": self.cube_conf,
        }

    def _file(self, name: str, data: bytes) -> Path:
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def manifest(self, data: bytes) -> bool:
        try:
            found = manifest.parse(data, where="here")
        except VersionError:
            return False
        names = [found.network, found.sample, *found.files, *(f for t in found.tables.values() for f in t.files)]
        assert not [name for name in [*names, *found.tables] if "/" in name or name.startswith(".")]
        assert manifest.parse(found.encoded(), where="again") == found
        return True

    def versions(self, data: bytes) -> bool:
        try:
            found = donefile.parse(data)
            for version in found.entries:
                chain = found.chain(version, where="here")
                assert chain[-1].version == version
        except VersionError:
            return False
        assert found.serving is None or found.serving in found.entries
        return True

    def products(self, data: bytes, kind: Any) -> bool:
        try:
            found = cube_donefiles.parse(data, kind, place="x")
        except DataError:
            return False
        bases = found if kind == "base" else [cube_donefiles.Product("base", 20190716, 20190716, "x")]
        steps = chain_of(bases, found if kind == "patch" else [])
        assert [step.version for step in steps] == sorted({step.version for step in steps})
        return bool(found)

    def _use(self, path: Path) -> bool:
        try:
            shard = read_shard(path)
        except VersionError:
            return False
        assert shard.version >= 0
        assert shard.parent is None or shard.parent < shard.version
        for name, place in shard.tables.items():
            assert "/" not in name and not name.startswith(".")
            assert 0 <= place.offset <= place.offset + place.length <= place.path.stat().st_size
            try:
                opened = place.open()
                _native.Layers([opened, opened]).lookup_values(ASKED)
                opened.verify()
            except RuntimeError:
                return False
        return True

    def shard_tar(self, data: bytes) -> bool:
        return self._use(self._file("part.tar", data))

    def shard_facts(self, data: bytes) -> bool:
        facts = self._file("compact_1/shard.json", data)
        if not (dictionary := facts.with_name("embedding.dict")).exists():
            _native.write_dictionary(str(dictionary), ASKED, np.ones((60, 4), np.uint8), dtype=0, dim=0)
        return self._use(facts.parent)

    def build_facts(self, data: bytes) -> bool:
        path = self._file("builds/1_1/build.json", data)
        path.with_name(part_name(NAME, 0)).write_bytes(b"0123456789")
        found = find_build(self._directory / "builds", 1, 1)
        if found is None:
            return False
        _sendable([found.source(0), meta_info(found.file(0)), msgspec.to_builtins(found.record)])
        return True

    def transfer_state(self, data: bytes) -> bool:
        self._file("transfer/transfer.json", data)
        replicas = [[Replica(agent="http://127.0.0.1:1", cube="tcp:127.0.0.1:1")]]
        plan = TransferPlan(
            name=NAME,
            layouts=FixedLayouts(single_layout(replicas)),
            output=self._directory / "builds",
            scratch=self._directory / "transfer",
        )
        source = DonefileSource(str(self._directory / "nothing"), table=NAME)
        try:
            transfer = Transfer(plan, source, token=TOKEN, url=str)
        except VersionError:
            return False
        views = TransferViews(transfer, wget_port=0)
        _sendable([views.info(), views.scaler(0), views.history()])
        _sendable([json.loads(meta) for meta in transfer.ledger.metas.values()])
        transfer._rollout.set_desired()
        transfer._advance()
        assert next_number(transfer.ledger, transfer.instances) > 0
        return True

    def cube_state(self, data: bytes) -> bool:
        self._file("cube/state.json", data)
        try:
            versions = LoadedVersions(self._directory / "cube", _Nobody(), name=NAME, shard=0, shards=1)
        except VersionError:
            return False
        versions.restore(may_serve=lambda: True)
        version, number = versions.noted
        assert 0 <= version < 2**64 and 0 <= number < 2**64
        assert all(isinstance(peer, str) for peer in versions.peers)
        return True

    def download_state(self, data: bytes) -> bool:
        self._file("agent/data/1/download.json", data)
        self._file(f"agent/data/1/{part_name(NAME, 0)}", b"0123456789")
        options = AgentOptions(deploy=self._directory / "agent", token=TOKEN)
        code, message, _ = run_cube_command(
            _agent(options), {"command": "check", "dict_name": NAME, "version": 1, "depend": 1}
        )
        assert isinstance(message, str)
        return code == "0" or "which cube server?" in message

    def transfer_conf(self, data: bytes, name: str) -> bool:
        try:
            plan = plan_of(read_transfer(self._file(name, data)))
        except JobError:
            return False
        (layout,) = plan.layouts.layouts()
        assert layout.shards and all(layout.shards)
        return True

    def cube_conf(self, data: bytes) -> bool:
        try:
            found = read_cube_conf(self._file("cube.conf", data))
        except ClicklineError:
            return False
        return bool(found)


def _agent(options: AgentOptions) -> Agent:
    """Without the client for downloads, which takes long to make."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent, "web_client", lambda: None)
        return Agent(options)


class _Nobody:
    """In place of the native server."""

    def load(self, version: int, tables: dict[str, _native.Layers]) -> None: ...
    def switch(self, version: int, number: int) -> None: ...
    def drop(self, version: int) -> None: ...


def resigned(data: bytes) -> bytes:
    """A tar whose members' checksums are right again, as an attacker would make it."""
    bytes_ = bytearray(data)
    at = 0
    for _ in range(50):
        block = bytes_[at : at + 512]
        if len(block) < 512 or not any(block):
            break
        block[148:156] = b"        "
        bytes_[at + 148 : at + 156] = b"%06o\0 " % (sum(block) & 0o777777)
        try:
            size = tarfile.nti(bytes(block[124:136]))  # type: ignore[attr-defined]
        except tarfile.HeaderError:  # type: ignore[attr-defined]
            size = 0
        at += 512 + -(-max(size, 0) // 512) * 512
    return bytes(bytes_)
