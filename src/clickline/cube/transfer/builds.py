"""Transfer's builds: made from the source as they are needed, offered to agents, removed when no version needs them."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clickline.cube.builder.build_record import BUILD, Build, BuildListener, find_build, is_sound, remove_build
from clickline.cube.builder.builder import build, clean
from clickline.cube.builder.version_source import ChainLink, VersionSource
from clickline.cube.layouts.layout_source import FixedLayouts, LayoutSource
from clickline.cube.shard_files import build_name
from clickline.cube.transfer.desired_state import ChainFile
from clickline.cube.transfer.ledger import Deployment
from clickline.errors import VersionError
from clickline.files.failpoints import reach

log = logging.getLogger("clickline.transfer")
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a build that could not be made again is tried next."""


@dataclass(frozen=True)
class TransferPlan:
    """What transfer delivers, to which servers, and how."""

    name: str
    layouts: LayoutSource
    output: Path
    scratch: Path
    interval: float = 10.0
    patience: float = 5.0
    """Seconds that a rollout waits for an instance that is dead or fails."""
    keep: int = 3
    threads: int = 0
    mode: str = "base_delta"
    donefile: str = ""
    deploy_path: str = ""
    build_listener: BuildListener | None = None

    def builds_directory(self, shards: int) -> str:
        """Where the builds for so many shards are, below `output`; members that are listed need no other number."""
        return "" if isinstance(self.layouts, FixedLayouts) else f"shards-{shards}/"


class Builds:
    """The builds for one number of shards. Only what was verified byte by byte since the start is offered."""

    def __init__(self, plan: TransferPlan, source: VersionSource, *, shards: int, url: Callable[[str], str]) -> None:
        self._plan, self._source, self._url, self._shards = plan, source, url, shards
        self._below = plan.builds_directory(shards)
        self.output = plan.output / self._below
        self._sound: dict[str, tuple[int, int]] = {}
        """Builds that were verified since the start, by name: inode and time of their build.json."""
        self._failed: dict[ChainLink, tuple[float, float]] = {}
        """Links whose builds could not be made again: when to try next, and the pause until then."""
        clean(self.output)

    def build(self, chain: list[ChainLink]) -> tuple[list[ChainLink], str]:
        """Build the chain: the links that are sound, and what is wrong with the first that is not."""
        good: list[ChainLink] = []
        for link in chain:
            try:
                self.prepare(link)
            except VersionError as error:
                return good, f"version {link.version} is not delivered: {error}"
            good.append(link)
        return good, ""

    def is_ready(self, link: ChainLink) -> bool:
        """Whether a link's build can be offered: it is there, and was found to be sound. Cheap."""
        name = build_name(link.base, link.version)
        return name in self._sound and self._sound[name] == self._identity(name)

    def suspect(self, base: int, version: int) -> None:
        """Stop offering a build, since an agent got something else than was built, until it was verified again."""
        self._sound.pop(build_name(base, version), None)

    def is_due(self, link: ChainLink) -> bool:
        """Whether a link's build is to be verified or made again now."""
        return not self.is_ready(link) and time.monotonic() >= self._failed.get(link, (0.0, 0.0))[0]

    def is_awaited(self, chain: list[ChainLink]) -> bool:
        """Whether a build of the chain cannot be offered yet, and none has failed: it soon can."""
        missing = [link for link in chain if not self.is_ready(link)]
        return bool(missing) and not any(link in self._failed for link in missing)

    def prepare_again(self, link: ChainLink) -> bool:
        """Verify a build of a version that was delivered before, or make it again; False if that failed."""
        try:
            self.prepare(link)
        except VersionError as error:
            if link not in self._failed:
                log.warning("version %d cannot be offered to servers that lack it: %s", link.version, error)
            _, before = self._failed.get(link, (0.0, 0.0))
            pause = min(max(2 * before, _FIRST_PAUSE), _LONGEST_PAUSE)
            self._failed[link] = (time.monotonic() + pause, pause)
            return False
        self._failed.pop(link, None)
        return True

    def prepare(self, link: ChainLink) -> Build:
        """A sound build of this link: the existing one, if every byte is right, otherwise one made now."""
        # The digest differs if the version was published again with other rows; the number of shards may have changed.
        existing = find_build(self.output, link.base, link.version)
        damaged = False
        if existing is not None and (existing.record.digest, existing.record.shards) == (
            link.digest,
            self._shards,
        ):
            # Verified once since the start and not replaced since: its bytes need not be read again.
            damaged = not self.is_ready(link) and not is_sound(existing)
            if not damaged:
                return self._offered(existing)
            log.warning("%s: damaged since it was built; it is built again", existing.path)
        log.info("version %d: building from %s", link.version, link.input)
        rows = self._source.rows(link, scratch=self._incoming)
        reach("transfer.fetched")
        # `again` because the builder compares digests only: it would return the damaged build as finished.
        made = build(
            rows,
            out=self.output,
            name=self._plan.name,
            shards=self._shards,
            threads=self._plan.threads,
            again=damaged,
            listener=self._plan.build_listener,
        )
        shutil.rmtree(self._incoming, ignore_errors=True)
        return self._offered(made)

    def chain_files(self, chain: list[ChainLink]) -> tuple[ChainFile, ...]:
        """What agents fetch for a chain; empty while one of its builds cannot be offered."""
        files = []
        for link in chain:
            made = find_build(self.output, link.base, link.version)
            # A delta without all that it stands on cannot be loaded, so a chain is offered whole or not at all.
            if made is None or not self.is_ready(link):
                return ()
            shards = range(self._shards)
            sources = tuple(self._url(f"{self._below}{made.source(shard)}") for shard in shards)
            hashes = tuple(made.file(shard).sha256 for shard in shards)
            files.append(ChainFile(link.version, link.base, sources, hashes))
        return tuple(files)

    def tidy(self, kept_versions: list[Deployment]) -> None:
        """Remove the builds that none of these versions needs, and what was never finished."""
        kept = {build_name(link.base, link.version) for one in kept_versions for link in one.chain}
        for path in self.output.iterdir() if self.output.is_dir() else ():  # going back needs no builds
            base, _, version = path.name.partition("_")
            if base.isdigit() and version.isdigit() and path.name not in kept:
                reach("transfer.tidying")
                remove_build(self.output, path, listener=self._plan.build_listener)
                self._sound.pop(path.name, None)
        clean(self.output)
        shutil.rmtree(self._incoming, ignore_errors=True)

    @property
    def _incoming(self) -> Path:
        """Where row files of a store elsewhere are copied to."""
        return self._plan.scratch / "incoming"

    def _offered(self, build: Build) -> Build:
        identity = self._identity(build.path.name)
        if identity is not None:
            self._sound[build.path.name] = identity
        return build

    def _identity(self, name: str) -> tuple[int, int] | None:
        try:
            # A build is replaced as a directory, by a rename, so build.json of another build has another inode.
            file = (self.output / name / BUILD).stat()
        except OSError:
            return None
        return file.st_ino, file.st_mtime_ns
