"""A served model: which version is current, and how the next one becomes so.

A new version is loaded, checked and warmed up beside the current one and then switched to by a single assignment;
requests that have begun finish with the one they were given. A version that cannot be loaded, or does not predict its
golden sample as the trainer did, is reported and retried after a while; the current one stays. A rollback to an earlier
version works in the same way. Which version is wanted is in `wanted_version`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from clickline.errors import ClicklineError
from clickline.net.predictor_documents import ModelStatus
from clickline.net.request_errors import refuse
from clickline.serve.metrics.metric_sink import MetricSink, NoMetrics
from clickline.serve.predictor.cube_layouts import CubeLayouts, OpenLayout
from clickline.serve.predictor.model_version import NO_CACHES, CacheSizes, ModelVersion, VersionOptions
from clickline.serve.predictor.row_sources import Failure, VersionGoneError
from clickline.serve.predictor.wanted_version import WantedVersion
from clickline.versions.donefile import Donefile
from clickline.versions.store import Store
from clickline.versions.version_cache import VersionCache

_LONGEST_PAUSE = 30.0
"""Most seconds until a version that failed is tried again."""
_MOST_DOUBLINGS = 32
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _State:
    """The current version and those that are kept. Never changed, only replaced, so that reading it needs no lock."""

    current: ModelVersion | None = None
    kept: Mapping[int, ModelVersion] = field(default_factory=dict)
    """By version number; the one that was switched to last comes last."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """The last attempt to load a version, or to learn which one is wanted, if it failed."""

    what: tuple[int, str, int]
    """Version, digest and layout; zero if it was not even known which."""
    error: str
    times: int
    again: float
    """When it may be tried again, by the monotonic clock."""


class ServedModel:
    """One model by name. Any thread may call `refresh`, and a thread of its own does so every `interval` seconds."""

    def __init__(
        self,
        name: str,
        store: Store,
        *,
        cache: VersionCache | None = None,
        cube: CubeLayouts | None = None,
        failure: Failure = "error",
        interval: float = 0.5,
        keep: int = 2,
        caches: CacheSizes = NO_CACHES,
        threads: int = 1,
        counts: MetricSink | None = None,
    ) -> None:
        """`cache` is where copies of files are kept, for a store that is not on this machine; `caches` are those of
        rows and requests, of each version."""
        self.name, self.store = name, store
        self._cube, self._on_failure = cube, failure
        self._interval, self._keep = interval, keep
        self._counts: MetricSink = NoMetrics() if counts is None else counts
        self._options = VersionOptions(cache=cache, model=name, caches=caches, threads=threads, counts=self._counts)
        self._wanted = WantedVersion(store, cache=cache)
        self._waiting_logged = False
        """Whether it was logged that there is no version yet."""
        self._state = _State()
        self._failure: _Failure | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def current(self) -> ModelVersion | None:
        return self._state.current

    def model_version(self, version: int | None = None) -> ModelVersion:
        """The current version, or one of those that are kept. Raises RequestError if there is none."""
        # Read once: a switch may replace it at any moment, and both fields must be of the same switch.
        state = self._state
        if state.current is None:
            why = f": {self._failure.error}" if self._failure is not None else ""
            raise refuse("not_ready", f"model {self.name} has no version yet{why}", 1.0)
        if version is None:
            return state.current
        kept = state.kept.get(version)
        if kept is None:
            known = ", ".join(map(str, sorted(state.kept)))
            raise refuse("unknown_version", f"model {self.name} has no version {version} loaded; loaded are: {known}")
        return kept

    def refresh(self) -> bool:
        """Poll once for the version that is wanted, and switch to it. Returns whether another one is current now.

        Never raises: whatever is wrong with a store, a cube or a version, the current version goes on serving.
        """
        # One at a time: two threads must not load the same version twice, nor switch in the wrong order. Requests do
        # not take this lock; they read `_state`.
        with self._lock:
            try:
                done = self._wanted.donefile()
                number, layout = (done.serving, None) if self._cube is None else self._in_cube(self._cube, done)
                if not number:
                    self._log_waiting()
                    return False
                # The digest, since a version that was published again has the same number.
                digest = done.entry(number, where=self.store.url).sha256
            except Exception as error:
                self._note_failure((0, "", 0), error)
                return False
            switched = self._switch_to(number, digest, done, layout)
            # After the switch, since it may have failed: then the layout of before is read from, as the version is.
            if switched and self._cube is not None and layout is not None:
                self._cube.move(layout)
            return switched

    def start(self) -> None:
        """Poll in a thread of its own; at once if there is no version yet."""
        self._thread = threading.Thread(target=self._follow, name=f"versions of {self.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop polling. Requests that hold a version can still finish, unless they read from the cube."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        # After the polling thread has ended, since its last poll could set a version again.
        self._state = _State()
        if self._cube is not None:
            self._cube.close()

    @property
    def versions(self) -> list[int]:
        """Numbers of the versions that can be asked for."""
        return sorted(self._state.kept)

    def status(self) -> ModelStatus:
        state, failed = self._state, self._failure
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
        if self.current is None and not self._stop.is_set():  # one that was closed before it was started stays so
            self.refresh()
        while not self._stop.wait(self._interval):
            self.refresh()

    def _log_waiting(self) -> None:
        """Log once that there is no version yet; a store that cannot be read is reported by `_note_failure`."""
        if not self._waiting_logged and self.current is None:
            self._waiting_logged = True
            where = self.store.url if self._cube is None else f"{self.store.url} and its cube"
            _log.warning("model %r: no version yet in %s; waiting", self.name, where)

    def _in_cube(self, cube: CubeLayouts, done: Donefile) -> tuple[int, OpenLayout | None]:
        """The version in service, 0 if there is none, and the layout that it is to be read from."""
        table = self._wanted.table(done, self._state.current)
        if not table:
            return 0, None
        cube.follow()
        unreachable: ClicklineError | None = None
        number = 0
        try:
            number = cube.current.version(table)
        except ClicklineError as error:
            unreachable = error
        for other in cube.others:
            try:
                serves = other.version(table)
            except ClicklineError:
                continue  # a layout that is being made: nobody waits for it
            # While the current layout serves, another that is behind it, or ahead, is not moved to: the version that
            # is answered by would go back and forth. The next poll finds both at the same.
            agrees = serves == number or unreachable is not None or not cube.is_current_listed
            if serves and agrees and other.has(serves, table):
                return serves, other
        if unreachable is not None:
            raise unreachable
        return number, cube.current

    def _switch_to(self, number: int, digest: str, done: Donefile, layout: OpenLayout | None) -> bool:
        state = self._state
        epoch = 0 if layout is None else layout.epoch
        kept = state.kept.get(number)
        # Current already, or a rollback to one that is still loaded.
        if kept is not None and (kept.digest, kept.layout) == (digest, epoch):
            self._failure = None
            if kept is state.current:
                return False
            self._take(kept)
            return True
        failed = self._failure
        if failed is not None and failed.what == (number, digest, epoch) and time.monotonic() < failed.again:
            return False
        start = time.perf_counter()
        try:
            version = self._load(number, done, layout)  # which checks it against its golden sample
        except Exception as error:  # whatever is in a version, the one before goes on
            self._counts.count("clickline_version_failures_total")
            self._note_failure((number, digest, epoch), error)
            return False
        self._failure = None
        self._counts.count("clickline_version_loads_total")
        self._counts.observe("clickline_load_seconds", time.perf_counter() - start)
        self._take(version)
        return True

    def _load(self, version: int, done: Donefile, layout: OpenLayout | None) -> ModelVersion:
        options = self._options
        if layout is not None:
            return ModelVersion.from_cube(
                self.store,
                version,
                done=done,
                options=options,
                cube=layout.cube,
                layout=layout.epoch,
                failure=self._on_failure,
            )
        # A delta shares its base's files with the versions before it: those are mapped already.
        known = {digest: file for kept in self._state.kept.values() for digest, file in kept.files.items()}
        return ModelVersion.from_files(self.store, version, done=done, options=options, known=known)

    def _take(self, version: ModelVersion) -> None:
        before = self._state
        # Inserted at the end also if it was kept before (a rollback): the order is that of the switches, and what was
        # switched to the longest ago is dropped first.
        # Those of another layout are let go, and its connections with them: its servers are about to be stopped.
        kept = {
            number: other
            for number, other in before.kept.items()
            if number != version.version and other.layout == version.layout
        }
        kept[version.version] = version
        for number in list(kept)[: -self._keep]:
            del kept[number]  # its memory goes with the last request that holds it
        self._state = _State(version, kept)  # the switch
        self._counts.gauge("clickline_version", version.version, self.name)
        was = "" if before.current is None else f" instead of {before.current.version}"
        _log.info("model %s: version %d%s", self.name, version.version, was)

    def _note_failure(self, what: tuple[int, str, int], error: Exception) -> None:
        """Log a failure once, and put the next attempt off: the longer, the more often it has failed."""
        text = str(error) if isinstance(error, ClicklineError | OSError) else f"{type(error).__name__}: {error}"
        before = self._failure
        times = before.times + 1 if before is not None and before.what == what else 1
        # A store may be away for days: beyond a few doublings the pause no longer grows, and 2.0**1024 is an error.
        pause = min(self._interval * 2.0 ** min(times, _MOST_DOUBLINGS), _LONGEST_PAUSE)
        if isinstance(error, VersionGoneError):  # the cube has switched meanwhile; the next poll learns to what
            pause = 0.0
        if before is None or (before.what, before.error) != (what, text):
            failed = f"version {what[0]} cannot be loaded" if what[0] else "cannot learn which version is wanted"
            _log.warning("model %s: %s: %s", self.name, failed, text)
        self._failure = _Failure(what, text, times, time.monotonic() + pause)
