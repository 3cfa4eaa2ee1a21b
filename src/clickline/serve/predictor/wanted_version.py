"""Which version of a model is wanted: without a cube, the one that the store's donefile names; else the cube's.

All answers of a cube carry the version of the highest switch, also of a switch back, so any read brings the news; a few
keys are read here in case there is no other read. A version that one shard has switched to is loaded on all.
"""

from __future__ import annotations

import numpy as np

from clickline.cube.cube_client import ALL_FAILED, Cube
from clickline.errors import PeerError, VersionError
from clickline.serve.predictor.model_version import ModelVersion
from clickline.versions import donefile
from clickline.versions.donefile import DONEFILE, Donefile
from clickline.versions.manifest import read_manifest
from clickline.versions.store import Store
from clickline.versions.version_cache import VersionCache

_PROBE = (np.arange(1, 65, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
"""Arbitrary keys that fall on all shards of any usual cube."""


class WantedVersion:
    """Asks a store, and a cube if there is one. For one thread at a time."""

    def __init__(self, store: Store, *, cube: Cube | None, cache: VersionCache | None) -> None:
        self._store, self._cube, self._cache = store, cube, cache
        self._donefile: tuple[object, Donefile] | None = None

    def donefile(self) -> Donefile:
        """The donefile; in a directory, it is read again only if the file has changed."""
        identity: object = None
        if self._store.directory is not None:
            try:
                # Before the content: if the file is replaced in between, the old identity makes the next poll read it.
                stat = (self._store.directory / DONEFILE).stat()
                identity = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            except OSError:
                identity = None
        if identity is None or self._donefile is None or self._donefile[0] != identity:
            self._donefile = (identity, donefile.read(self._store))
        return self._donefile[1]

    def number(self, done: Donefile, current: ModelVersion | None) -> int | None:
        """The number of the version that is wanted; 0 or None if there is none. `current`: what is served now."""
        return done.serving if self._cube is None else self._in_cube(self._cube, done, current)

    def _in_cube(self, cube: Cube, done: Donefile, current: ModelVersion | None) -> int:
        """The version in service on the cube; 0 if there is none. It is learned by reading keys of any table."""
        if current is not None:
            manifest = current.manifest
        elif done.serving is not None:
            entry = done.entry(done.serving, where=self._store.url)
            manifest = read_manifest(self._store, entry) if self._cache is None else self._cache.manifest(entry)
        else:
            return 0
        try:
            code = cube.get(next(iter(manifest.tables), "embedding"), _PROBE).code
        except PeerError as error:
            # The table may be gone with its version; the client has heard the number all the same.
            if not cube.version:
                raise VersionError(f"the cube does not report which version it serves: {error}") from error
            return cube.version
        if code == ALL_FAILED and not cube.version:
            raise PeerError("no server of the cube can be reached")
        return cube.version
