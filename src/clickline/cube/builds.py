"""Transfer's builds: made from the source as they are needed, offered to agents, removed when no version needs them."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clickline.cube.building import Build, build, find_build
from clickline.cube.deployments import Deployment
from clickline.cube.driving import Piece
from clickline.cube.instances import Replica
from clickline.cube.shardfiles import build_name
from clickline.cube.sources import Source, Step
from clickline.errors import VersionError
from clickline.failpoints import reach

log = logging.getLogger("clickline.transfer")


@dataclass(frozen=True)
class TransferPlan:
    """What transfer is to do."""

    name: str
    replicas: list[list[Replica]]
    """By shard."""
    output: Path
    scratch: Path
    interval: float = 10.0
    patience: float = 5.0
    """Seconds that a rollout waits for an instance that is dead or fails."""
    keep: int = 3
    threads: int = 0
    mode: str = "base_delta"
    download_mode: str = "http"
    donefile: str = ""
    deploy_path: str = ""

    @property
    def shards(self) -> int:
        return len(self.replicas)


class Builds:
    """All builds of one output directory."""

    def __init__(self, plan: TransferPlan, source: Source, *, url: Callable[[str], str]) -> None:
        self._plan, self._source, self._url = plan, source, url

    def build(self, chain: list[Step]) -> tuple[list[Step], str]:
        """Builds of the chain, as far as it is sound, and what is wrong with the rest."""
        good: list[Step] = []
        for step in chain:
            try:
                self._build_one(step)
            except VersionError as error:
                return good, f"version {step.version} is not delivered: {error}"
            good.append(step)
        return good, ""

    def _build_one(self, step: Step) -> Build:
        found = find_build(self._plan.output, step.base, step.version)
        if found is not None and found.facts["digest"] == step.digest and found.facts["shards"] == self._plan.shards:
            return found
        log.info("[entry]start build version:%d input:%s", step.version, step.input)
        scratch = self._plan.scratch / "incoming"
        rows = self._source.rows(step, scratch=scratch)
        reach("transfer.fetched")
        made = build(
            rows, out=self._plan.output, name=self._plan.name, shards=self._plan.shards, threads=self._plan.threads
        )
        shutil.rmtree(scratch, ignore_errors=True)
        return made

    def pieces(self, chain: list[Step]) -> tuple[Piece, ...]:
        found = []
        for step in chain:
            made = find_build(self._plan.output, step.base, step.version)
            if made is None:
                return ()
            shards = range(self._plan.shards)
            sources = tuple(self._url(made.source(shard)) for shard in shards)
            hashes = tuple(made.file(shard)["sha256"] for shard in shards)
            found.append(Piece(step.version, step.base, sources, hashes))
        return tuple(found)

    def tidy(self, kept_versions: list[Deployment]) -> None:
        """Builds that none of the last versions needs go away."""
        kept = {build_name(step.base, step.version) for one in kept_versions for step in one.chain}
        for path in self._plan.output.iterdir():
            base, _, version = path.name.partition("_")
            if base.isdigit() and version.isdigit() and path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)
