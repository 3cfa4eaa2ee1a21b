"""What a store says about the versions of a model: its donefile, and a table by which a cube can be asked.

Without a cube, the version that is wanted is the one that the donefile names; else the cube's (`cube_layouts`).
"""

from __future__ import annotations

from clickline.serve.predictor.model_version import ModelVersion
from clickline.versions import donefile
from clickline.versions.donefile import DONEFILE, Donefile
from clickline.versions.manifest import read_manifest
from clickline.versions.store import Store
from clickline.versions.version_cache import VersionCache


class WantedVersion:
    """Asks a store. For one thread at a time."""

    def __init__(self, store: Store, *, cache: VersionCache | None) -> None:
        self._store, self._cache = store, cache
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

    def table(self, done: Donefile, current: ModelVersion | None) -> str:
        """A table to read keys of; empty if there is no version. `current`: what is served now."""
        if current is not None:
            manifest = current.manifest
        elif done.serving is not None:
            entry = done.entry(done.serving, where=self._store.url)
            manifest = read_manifest(self._store, entry) if self._cache is None else self._cache.manifest(entry)
        else:
            return ""
        return next(iter(manifest.tables), "embedding")
