"""A model that is served: which version is current, and how the next one becomes so.

A new version is loaded, checked and warmed beside the old one and then taken by a single assignment; requests that have
begun go on with the one they were given. One that cannot be loaded, or does not predict its kept sample as the trainer
did, is reported and left alone for a while; the old goes on. Going back to an earlier version is the same thing.

Which version is wanted: without a cube, the one that the store's donefile says. With a cube, the one in service there.
A cube's answers all tell the version of the highest switch, also one back, so any read brings the news; `refresh` reads
a few keys for the case that nobody else does. A version that one shard has switched to is loaded on all of them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clickline.cube.cube_client import ALL_FAILED, Cube
from clickline.errors import ClicklineError, PeerError, VersionError
from clickline.net.request_errors import refuse
from clickline.serve.metrics.metric_sink import MetricSink, NoMetrics
from clickline.serve.predictor.model_version import NO_CACHES, CacheSizes, Loaded, ReadTally
from clickline.serve.predictor.row_sources import Failure, VersionGoneError
from clickline.versions import donefile
from clickline.versions.donefile import DONEFILE, Donefile
from clickline.versions.manifest import read_manifest
from clickline.versions.store import Store
from clickline.versions.version_cache import VersionCache

_PROBE = (np.arange(1, 65, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
"""Keys of no meaning that fall on all shards of any usual cube."""
_LONGEST_PAUSE = 30.0
"""Seconds until a version that failed is tried again, at most."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _State:
    """Never changed, only replaced."""

    current: Loaded | None = None
    kept: Mapping[int, Loaded] = field(default_factory=dict)
    """By version; the one that was taken last comes last."""


@dataclass(frozen=True, slots=True)
class _Failed:
    what: tuple[int, str]
    """Version and digest; zero if it was not even known which."""
    error: str
    times: int
    again: float
    """When it may be tried again, by the monotonic clock."""


class Served:
    """One model by name. `refresh` may be called from any thread, and a thread does so every `interval` seconds."""

    def __init__(
        self,
        name: str,
        store: Store,
        *,
        cache: VersionCache | None = None,
        cube: Cube | None = None,
        failure: Failure = "error",
        interval: float = 0.5,
        keep: int = 2,
        caches: CacheSizes = NO_CACHES,
        threads: int = 1,
        counts: MetricSink | None = None,
    ) -> None:
        """`cache` is where copies of files are kept, for a store that is not on this machine; `caches` are those of
        rows and requests, of each version."""
        self.name, self.store, self._cache = name, store, cache
        self._cube, self._failure = cube, failure
        self._interval, self._keep, self._threads = interval, keep, threads
        self._counts: MetricSink = NoMetrics() if counts is None else counts
        self._tally, self._caches = ReadTally(), caches
        self._waiting = False
        """Whether it was said that there is no version yet."""
        self._state = _State()
        self._failed: _Failed | None = None
        self._donefile: tuple[object, Donefile] | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def current(self) -> Loaded | None:
        return self._state.current

    def loaded(self, version: int | None = None) -> Loaded:
        """The current version, or one of those that are kept."""
        state = self._state
        if state.current is None:
            why = f": {self._failed.error}" if self._failed is not None else ""
            raise refuse("not_ready", f"model {self.name} has no version yet{why}", 1.0)
        if version is None:
            return state.current
        found = state.kept.get(version)
        if found is None:
            there = ", ".join(map(str, sorted(state.kept)))
            raise refuse("unknown_version", f"model {self.name} has no version {version} loaded; there are: {there}")
        return found

    def refresh(self) -> bool:
        """Look once for the version that is wanted, and take it. Whether another one is current afterwards."""
        with self._lock:
            try:
                done = self._read_donefile()
                wanted = done.serving if self._cube is None else self._version_of_cube(done, self._cube)
                if not wanted:
                    self._say_waiting()
                    return False
                digest = done.entry(wanted, where=self.store.url).sha256
            except Exception as error:
                self._fail((0, ""), error)
                return False
            return self._move_to(wanted, digest, done)

    def start(self) -> None:
        """Look again and again, in a thread of its own; at once if there is no version yet."""
        self._thread = threading.Thread(target=self._follow, name=f"versions of {self.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Requests that hold a version can still finish, unless they read from the cube."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._state = _State()
        if self._cube is not None:
            self._cube.close()

    def status(self) -> dict[str, Any]:
        state, failed = self._state, self._failed
        current = state.current
        return {
            "store": self.store.url,
            "rows": "cube" if self._cube is not None else "files",
            "version": None if current is None else current.version,
            "versions": sorted(state.kept),
            "labels": [] if current is None else list(current.labels),
            "created": None if current is None else current.created,
            "watermark": None if current is None else current.watermark,
            "failure": None if failed is None else {"version": failed.what[0] or None, "error": failed.error},
        }

    def _follow(self) -> None:
        if self.current is None:
            self.refresh()
        while not self._stop.wait(self._interval):
            self.refresh()

    def _say_waiting(self) -> None:
        """Once; what is wrong with a store that cannot be read is said elsewhere."""
        if not self._waiting and self.current is None:
            self._waiting = True
            where = self.store.url if self._cube is None else f"{self.store.url} and its cube"
            _log.warning("model %r: no version yet in %s; waiting", self.name, where)

    def _move_to(self, version: int, digest: str, done: Donefile) -> bool:
        state = self._state
        held = state.kept.get(version)
        if held is not None and held.digest == digest:
            self._failed = None
            if held is state.current:
                return False
            self._take(held)
            return True
        failed = self._failed
        if failed is not None and failed.what == (version, digest) and time.monotonic() < failed.again:
            return False
        start = time.perf_counter()
        try:
            loaded = self._load(version, done)
        except Exception as error:  # whatever is in a version, the one before goes on
            self._counts.count("clickline_version_failures_total")
            self._fail((version, digest), error)
            return False
        self._failed = None
        self._counts.count("clickline_version_loads_total")
        self._counts.observe("clickline_load_seconds", time.perf_counter() - start)
        self._take(loaded)
        return True

    def _load(self, version: int, done: Donefile) -> Loaded:
        if self._cube is not None:
            return Loaded.from_cube(
                self.store,
                version,
                done=done,
                cube=self._cube,
                failure=self._failure,
                cache=self._cache,
                model=self.name,
                caches=self._caches,
                threads=self._threads,
                counts=self._counts,
                tally=self._tally,
            )
        known = {digest: file for held in self._state.kept.values() for digest, file in held.files.items()}
        return Loaded.from_files(
            self.store,
            version,
            done=done,
            known=known,
            cache=self._cache,
            model=self.name,
            caches=self._caches,
            threads=self._threads,
            counts=self._counts,
            tally=self._tally,
        )

    def _take(self, loaded: Loaded) -> None:
        before = self._state
        kept = {version: held for version, held in before.kept.items() if version != loaded.version}
        kept[loaded.version] = loaded
        for version in list(kept)[: -self._keep]:
            del kept[version]
        self._state = _State(loaded, kept)  # the switch
        self._counts.gauge("clickline_version", loaded.version, self.name)
        was = "" if before.current is None else f" instead of {before.current.version}"
        _log.info("model %s: version %d%s", self.name, loaded.version, was)

    def _fail(self, what: tuple[int, str], error: Exception) -> None:
        text = str(error) if isinstance(error, ClicklineError | OSError) else f"{type(error).__name__}: {error}"
        before = self._failed
        times = before.times + 1 if before is not None and before.what == what else 1
        pause = min(self._interval * 2.0**times, _LONGEST_PAUSE)
        if isinstance(error, VersionGoneError):  # the cube has moved on meanwhile; the next look knows more
            pause = 0.0
        if before is None or (before.what, before.error) != (what, text):
            said = f"version {what[0]} is not taken" if what[0] else "versions cannot be looked for"
            _log.warning("model %s: %s: %s", self.name, said, text)
        self._failed = _Failed(what, text, times, time.monotonic() + pause)

    def _read_donefile(self) -> Donefile:
        """Read anew only if it has changed, where that can be seen."""
        seen: object = None
        if self.store.directory is not None:
            try:
                facts = (self.store.directory / DONEFILE).stat()
                seen = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
            except OSError:
                seen = None
        if seen is None or self._donefile is None or self._donefile[0] != seen:
            self._donefile = (seen, donefile.read(self.store))
        return self._donefile[1]

    def _version_of_cube(self, done: Donefile, cube: Cube) -> int:
        current = self._state.current
        if current is not None:
            manifest = current.manifest
        elif done.serving is not None:
            entry = done.entry(done.serving, where=self.store.url)
            manifest = read_manifest(self.store, entry) if self._cache is None else self._cache.manifest(entry)
        else:
            return 0
        try:
            code = cube.get(next(iter(manifest.tables), "embedding"), _PROBE).code
        except PeerError as error:  # tables may have changed with the version; the client knows its number all the same
            if not cube.version:
                raise VersionError(f"the cube does not say which version it serves: {error}") from error
            return cube.version
        if code == ALL_FAILED and not cube.version:
            raise PeerError("no server of the cube can be reached")
        return cube.version
