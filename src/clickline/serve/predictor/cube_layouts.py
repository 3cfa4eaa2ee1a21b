"""The layouts of a model's cube: the one that is read from, and those that may take its place.

A loaded version reads from one layout as long as it lives, so a request is answered by one layout and one version from
start to end. Another layout is moved to as a version is: loaded beside the current one, checked, switched to. Its
connections are closed with the last version, and so with the last request, that reads from it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clickline.cube.cube_client import ALL_FAILED, OK, Cube
from clickline.cube.layouts.layout import Layout, LayoutsUnknownError
from clickline.cube.layouts.layout_source import FixedLayouts, LayoutSource
from clickline.errors import PeerError, VersionError

Connect = Callable[[Layout], Cube]
_FEWEST = 64
_PER_SHARD = 32
"""Keys of a probe: that none of them falls on a given shard has a probability of e to the power of -32."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenLayout:
    """A layout, and a client that reads from it."""

    layout: Layout
    cube: Cube

    @property
    def epoch(self) -> int:
        return self.layout.epoch

    def version(self, table: str) -> int:
        """The version in service; 0 if there is none. It is learned by reading keys of any table.

        All answers carry the version of the highest switch, also of a switch back.
        """
        try:
            code = self.cube.get(table, self._probe).code
        except PeerError as error:
            # The table may be gone with its version; the client has heard the number all the same.
            if not self.cube.version:
                raise VersionError(f"the cube does not report which version it serves: {error}") from error
            return self.cube.version
        if code == ALL_FAILED and not self.cube.version:
            raise PeerError("no server of the cube can be reached")
        return self.cube.version

    def has(self, version: int, table: str) -> bool:
        """Whether every shard can answer by this version."""
        try:
            return self.cube.get(table, self._probe, version=version).code == OK
        except PeerError:
            return False

    @property
    def _probe(self) -> NDArray[np.uint64]:
        """Arbitrary keys that fall on all shards."""
        count = max(_FEWEST, _PER_SHARD * len(self.layout.shards))
        return (np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)


class CubeLayouts:
    """Follows a source of layouts. For one thread at a time, which is the one that polls for versions."""

    def __init__(self, source: LayoutSource, connect: Connect) -> None:
        self._source, self._connect = source, connect
        self._current: OpenLayout | None = None
        self._others: dict[int, OpenLayout] = {}
        """Layouts that are not read from, by epoch."""
        self._listed: frozenset[int] = frozenset()
        self._unknown = ""

    @classmethod
    def single(cls, cube: Cube) -> CubeLayouts:
        """Of a cube whose servers do not change."""
        return cls(FixedLayouts(Layout(1, ())), lambda _: cube)

    @property
    def current(self) -> OpenLayout:
        """The layout that is read from. Raises LayoutsUnknownError as long as none is known."""
        if self._current is None:
            raise LayoutsUnknownError(self._unknown or "the layouts of the cube are not known yet")
        return self._current

    @property
    def is_current_listed(self) -> bool:
        return self._current is not None and self._current.epoch in self._listed

    @property
    def others(self) -> list[OpenLayout]:
        """Layouts to move to, the newest first; older ones only if the current one is no longer listed."""
        others = sorted(self._others.values(), key=lambda each: each.epoch, reverse=True)
        return [each for each in others if not self.is_current_listed or each.epoch > self.current.epoch]

    def follow(self) -> None:
        """Look at the source: connect to layouts that are new, let go of those that are gone."""
        try:
            layouts = self._source.layouts()
        except LayoutsUnknownError as error:  # those that are known stay
            if str(error) != self._unknown:
                _log.warning("%s", error)
            self._unknown = str(error)
            return
        self._unknown = ""
        # Another number of shards under the same epoch would send keys to wrong servers: it counts as not listed.
        fitting = [layout for layout in layouts if not self._contradicts(layout)]
        self._listed = frozenset(layout.epoch for layout in fitting)
        for epoch in [epoch for epoch in self._others if epoch not in self._listed]:
            self._others.pop(epoch).cube.close()  # no version reads from it
        for layout in fitting:
            self._open(layout)
        # The oldest, which surely served before the others; the first poll moves on to the newest that is whole.
        if self._current is None and self._others:
            self._current = self._others.pop(min(self._others))

    def move(self, to: OpenLayout) -> None:
        """Read from another layout from now on; versions that were loaded from the one before go on with it."""
        if self._current is not None and to.epoch != self._current.epoch:
            _log.info(
                "layout %d of %d shards, instead of %d of %d",
                to.epoch,
                len(to.layout.shards),
                self._current.epoch,
                len(self._current.layout.shards),
            )
            # Not closed here: requests that have begun read from it. It goes with the last version that holds it.
            self._current = self._others.pop(to.epoch)

    def close(self) -> None:
        for opened in [*self._others.values(), *([] if self._current is None else [self._current])]:
            opened.cube.close()

    def _contradicts(self, layout: Layout) -> bool:
        known = self._known(layout.epoch)
        return known is not None and len(known.layout.shards) != len(layout.shards)

    def _known(self, epoch: int) -> OpenLayout | None:
        if self._current is not None and self._current.epoch == epoch:
            return self._current
        return self._others.get(epoch)

    def _open(self, layout: Layout) -> None:
        known = self._known(layout.epoch)
        if known is None:
            self._others[layout.epoch] = OpenLayout(layout, self._connect(layout))
        elif known.layout != layout:
            # Replicas that came or went: versions that read from the layout use them from the next request on.
            _set_servers(known.cube, layout.servers)
            renewed = OpenLayout(layout, known.cube)
            if known is self._current:
                self._current = renewed
            else:
                self._others[layout.epoch] = renewed


def _set_servers(cube: Cube, servers: Sequence[Sequence[str]]) -> None:
    for shard, replicas in enumerate(servers):
        cube.set_replicas(shard, replicas)
