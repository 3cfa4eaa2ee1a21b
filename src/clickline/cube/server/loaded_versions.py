"""A cube server's versions: which are on disk, which are loaded, which one is in service.

    DIRECTORY/data/<version>/<name>_part<i>.tar              a base, as the agent put it there
    DIRECTORY/data/<base>_<version>/<name>_part<i>.tar       a delta
    DIRECTORY/data/compact_<version>/                        a chain that was merged: read instead of it
    DIRECTORY/state.json                                     what was switched to, and when: what a restart serves

A version is loaded whole or not at all, and nothing is read from a directory that is still being written: those begin
with a dot and get their name by a rename. What is noted in state.json before a switch is the version that all servers
were told to serve, so a server that dies in between comes back with that one, never with one merely downloaded.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from clickline import _native
from clickline.cube.server.disk import Disk
from clickline.cube.server.open_shard_files import OpenShardFiles
from clickline.cube.server.switch_log import SwitchLog
from clickline.errors import VersionError
from clickline.files.failpoints import reach

log = logging.getLogger("clickline.cube")


class NativeServer(Protocol):
    """The native server, which answers readers."""

    def load(self, version: int, tables: dict[str, _native.Layers]) -> None: ...
    def replace(self, version: int, tables: dict[str, _native.Layers]) -> None: ...
    def switch(self, version: int, number: int) -> None: ...
    def drop(self, version: int) -> None: ...


@dataclass(frozen=True)
class ServedVersion:
    """The version in service. A reader that holds one sees this version only, also after a switch."""

    version: int = 0
    number: int = 0
    tables: dict[str, _native.Layers] = field(default_factory=dict)


class LoadedVersions:
    """A server's versions: loaded, switched to, dropped. Safe to use from any thread.

    Changes are serialized by `lock`; `view` is replaced as a whole, so that readers need no lock.
    """

    def __init__(
        self,
        directory: Path,
        native: NativeServer,
        *,
        name: str,
        shard: int,
        shards: int,
        keep: int = 3,
        memory: bool = False,
    ) -> None:
        if keep < 1:
            raise VersionError(f"keep is {keep}; at least the version in service must be kept")
        self.directory, self.data = directory, directory / "data"
        self.disk = Disk(self.data, name=name, shard=shard, shards=shards)
        self.name, self.shard, self.shards = name, shard, shards
        self.view = ServedVersion()
        self.lock = threading.RLock()
        # Taken before `lock`, never while it is held: one load at a time, while switches and rollbacks go on.
        self._loading = threading.Lock()
        self.load_seconds = 0.0
        self.problems: list[str] = []
        """What was found wrong with the files, since the start."""
        self._native, self._keep = native, keep
        self._files = OpenShardFiles(self.disk, memory=memory, report=self._report)
        self._loaded: dict[int, tuple[list[Path], dict[str, _native.Layers]]] = {}
        self._log = SwitchLog.read(directory, name=name, shard=shard, shards=shards)

    # --- what is there ---

    @property
    def loaded(self) -> list[int]:
        return sorted(self._loaded)

    @property
    def noted(self) -> tuple[int, int]:
        """Version and number of the last switch, be it served yet or not."""
        return self._log.last

    @property
    def peers(self) -> list[str]:
        """Addresses of the other servers of this shard."""
        return self._log.peers

    # --- changes ---

    def restore(self, *, may_serve: Callable[[], bool]) -> None:
        """After a start: load what was kept, and serve the last switch unless `may_serve` knows of a later one."""
        version, number = self.noted
        for kept in reversed(self._log.versions(self._keep)):  # the last one first: readers wait for it
            try:
                self.load(kept)
            except (VersionError, RuntimeError, ValueError) as error:
                self._report(f"version {kept} cannot be loaded again: {error}")
            # The wire is open already: if a switch command was executed during the load, it is newer and is kept.
            with self.lock:
                if kept == version and kept in self._loaded and not self.view.version and may_serve():
                    self._native.switch(version, number)
                    self.view = ServedVersion(version, number, self._loaded[version][1])
                    log.info("version %d is in service again, switch %d", version, number)

    def load(self, version: int) -> None:
        """Make a version ready to be switched to. One that is loaded stays as it is. Switches need not wait for it.

        Every file that was not open yet is verified. A damaged one counts as missing from then on.
        """
        with self._loading:
            if version in self._loaded:
                return
            reach("cube.loading")
            began = time.perf_counter()
            self.disk.trust_again()
            # Verifying reads every byte, which takes long: only `_loading` is held, so that switches go on meanwhile.
            opened = self._files.open_verified(version)
            with self.lock:
                self._files.add(opened)
                self._put(version)
            self.load_seconds = time.perf_counter() - began
            reach("cube.loaded")
            log.info("version %d is loaded, %.3f s", version, self.load_seconds)

    def switch(self, version: int, number: int = 0, *, peers: Iterable[str] | None = None) -> None:
        """Serve a loaded version. `number` 0 takes the next; a number that was overtaken is refused."""
        with self.lock:
            number = number or self._log.number + 1
            # A command that is sent again after a lost reply succeeds without another write to the disk.
            if (version, number) == (self.view.version, self.view.number):
                return
            if version not in self._loaded:
                raise VersionError(f"version {version} is not loaded here; loaded: {self._listed()}")
            # A switch that was overtaken, by a rollback for instance, must not undo what came after it.
            if number < self._log.number or (number == self._log.number and version != self.noted[0]):
                raise VersionError(
                    f"switch {number} to version {version} is refused: switch {self._log.number} to version "
                    f"{self.noted[0]} came before"
                )
            reach("cube.before-switch")
            # First on disk, then in memory: after a crash in between, the restart serves what all were told to serve.
            self._log.add(version, number, peers=peers)
            reach("cube.noted")
            self._native.switch(version, number)
            self.view = ServedVersion(version, number, self._loaded[version][1])
            reach("cube.switched")
            log.info("version %d is in service, switch %d", version, number)

    def rollback(self, number: int = 0, *, version: int = 0, peers: Iterable[str] | None = None) -> int:
        """Serve the previous version, or the given one. It must be loaded."""
        with self.lock:
            # The last entry of the log is the version that was switched to last, so it is what is left.
            before = [earlier for earlier in self._log.versions()[:-1] if earlier in self._loaded]
            if not version and not before:
                raise VersionError(f"there is no version to go back to; loaded: {self._listed()}")
            version = version or before[-1]
            self.switch(version, number, peers=peers)
            return version

    def drop(self, version: int) -> None:
        """Take a version out of memory. Readers that hold it finish; its files stay."""
        with self.lock:
            if version == self.view.version:
                raise VersionError(f"version {version} is in service and cannot be dropped")
            if version in self._loaded:
                self._native.drop(version)
                del self._loaded[version]
                self._close_unused()

    def remove(self, version: int) -> None:
        """Drop a version and delete its files, unless a loaded version is built on them."""
        with self.lock:
            if version in self._loaded:
                self.drop(version)
            for path in self.disk.versions().get(version, []):
                used = [number for number in self._loaded if path in self._places(number)]
                if used:
                    raise VersionError(f"version {version} is part of version {used[0]}, which is loaded")
                shutil.rmtree(path)

    def trim(self) -> list[int]:
        """Keep the last versions that were in service and what came after; delete what none of them needs."""
        with self.lock:
            # Loaded for a switch that is still to come: a rollout loads everywhere before any server switches.
            newer = {version for version in self._loaded if version > self.view.version}
            kept = newer | set(self._log.versions(self._keep))
            dropped = [version for version in self._loaded if version not in kept]
            for version in dropped:
                self.drop(version)
            # A version that is kept may be read from a merged chain or from its own delta: whatever it was opened from
            # stays, and only what it was not opened from may go.
            needed = {path for version in kept & self._loaded.keys() for path in self._places(version)}
            for path in self.disk.superfluous(kept=kept, loaded=self._loaded.keys(), needed=needed):
                reach("cube.trimming")
                shutil.rmtree(path, ignore_errors=True)
            self.disk.remove_leftovers(through=self.view.version)
            reach("cube.trimmed")
            return dropped

    def replace(self, version: int) -> None:
        """Open a loaded version, and those built on it, from the files that are there now: the rows are the same."""
        with self.lock:
            # A delta's number is higher than its parent's, so all versions that are built on this one are among these.
            for number in [number for number in self._loaded if number >= version]:
                self._put(number, again=True)
                if number == self.view.version:
                    self.view = ServedVersion(number, self.view.number, self._loaded[number][1])
            self._close_unused()

    def layers(self, version: int) -> dict[str, list[_native.Dictionary]]:
        """The dictionaries of a loaded version by table, base first."""
        with self.lock:
            return self._files.layers(self.disk.chain(version))

    def _put(self, version: int, *, again: bool = False) -> None:
        """Hand the layers of a version to the native server. `lock` is held."""
        # Looked up again under the lock: compaction may have put a merged chain in place since the files were verified.
        chain = self.disk.chain(version)
        tables = {name: _native.Layers(layers) for name, layers in self._files.layers(chain).items()}
        (self._native.replace if again else self._native.load)(version, tables)
        self._loaded[version] = ([shard.path for shard in chain], tables)

    def _places(self, version: int) -> set[Path]:
        """Files and merged chains that a loaded version was opened from, and the directories that they are in."""
        return {place for path in self._loaded[version][0] for place in (path, path.parent)}

    def _close_unused(self) -> None:
        self._files.keep({path for paths, _ in self._loaded.values() for path in paths})

    def _listed(self) -> str:
        return ", ".join(map(str, self.loaded)) or "none"

    def _report(self, text: str) -> None:
        log.warning("%s", text)
        self.problems.append(text)
