"""Compaction: a long chain of deltas is merged into one dictionary for each table, beside it, while readers go on.

The result is the same version: the same rows, fewer layers to look through. It is written to a staging directory and
appears by a rename; then the layers are exchanged under the version's number. Readers that hold the old ones finish.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time

from clickline import _native
from clickline.cube.server.disk import COMPACT
from clickline.cube.server.loaded_versions import LoadedVersions
from clickline.cube.shard_files import HEADER, ShardHeader, TableRows, owned_buckets
from clickline.errors import VersionError
from clickline.files.atomic import sync_directory, write_synced
from clickline.files.failpoints import reach
from clickline.files.leftovers import being_written

log = logging.getLogger("clickline.cube")
LAYERS = 8
"""More layers than this are merged."""
SHARE = 0.25
"""Overlays with more keys than this share of the base's are merged, too."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until tidying up that failed is tried again."""


def is_due(layers: list[_native.Dictionary]) -> bool:
    """Whether reading through these layers costs more than merging them is worth."""
    overlay = sum(one.count + one.deleted for one in layers[1:])
    return len(layers) > LAYERS or (len(layers) > 2 and overlay > SHARE * layers[0].count)


def compact(versions: LoadedVersions, version: int) -> bool:
    """Merge a loaded version's chain; False if it is one layer already."""
    layers = versions.layers(version)
    if all(len(chain) == 1 for chain in layers.values()):
        return False
    began = time.perf_counter()
    # The merge takes long and holds no lock. `layers` keeps the files mapped, even if `trim` deletes them meanwhile.
    first, last = owned_buckets(versions.shard, versions.shards)
    final = versions.data / f"{COMPACT}{version}"
    with being_written(versions.data / f".{COMPACT}{version}", anew=True) as aside:
        tables = {}
        for name, chain in layers.items():
            # Nothing lies below the result, so there is no row left that a deletion would have to hide.
            made = _native.merge_dictionaries(
                str(aside / f"{name}.dict"), chain, first_bucket=first, last_bucket=last, keep_deleted=False
            )
            reach("cube.compacting")
            # `replace` opens it without verifying, and the chain that could be read instead is deleted soon after.
            _native.Dictionary(str(aside / f"{name}.dict")).verify()
            tables[name] = TableRows(
                dim=chain[0].dim, dtype=chain[0].dtype, row_bytes=chain[0].row_bytes, count=made["count"]
            )
        # A base has no parent: the lookup of a chain that reaches this file ends here and ignores the deltas.
        header = ShardHeader(
            name=versions.name,
            version=version,
            base=version,
            kind="base",
            shard=versions.shard,
            shards=versions.shards,
            tables=tables,
        )
        # From the rename on it is read in place of the chain, which is then deleted: all of it is on the disk before.
        write_synced(aside / HEADER, header.encoded())
        sync_directory(aside)
        reach("cube.compact-written")
        with versions.lock:
            # It may have been dropped during the merge; the staging directory is removed on the way out.
            if version not in versions.loaded:
                return False
            if final.exists():  # it could not be read: otherwise the chain would have one layer
                shutil.rmtree(final)
            aside.rename(final)
            sync_directory(versions.data)
            reach("cube.compacted")
            versions.replace(version)
    log.info(
        "version %d is one layer now, was %d; %.3f s",
        version,
        max(map(len, layers.values())),
        time.perf_counter() - began,
    )
    return True


class Compactor(threading.Thread):
    """Tidies up after switches: what is not kept goes, long chains are merged. Nobody waits for it."""

    def __init__(self, versions: LoadedVersions) -> None:
        super().__init__(name="clickline-compactor", daemon=True)
        self._versions = versions
        self._wake, self._ending = threading.Event(), threading.Event()

    def wake(self) -> None:
        self._wake.set()

    def close(self) -> None:
        self._ending.set()
        self._wake.set()
        # A merge cannot be interrupted. The thread is a daemon, and what it leaves is removed after the next start.
        self.join(30.0)

    def run(self) -> None:
        pause = None  # nothing to do before `wake`
        while True:
            self._wake.wait(pause)
            # Cleared before the work: a switch that comes during the work causes another round.
            self._wake.clear()
            if self._ending.is_set():
                return
            try:
                self._versions.trim()
                version = self._versions.view.version
                if version and any(is_due(chain) for chain in self._versions.layers(version).values()):
                    compact(self._versions, version)
                    # Deletes the merged deltas, except those that an older version still reads.
                    self._versions.trim()
                pause = None
            except (VersionError, RuntimeError, OSError) as error:
                pause = _FIRST_PAUSE if pause is None else min(2 * pause, _LONGEST_PAUSE)
                log.warning("tidying up failed, and is tried again in %g s: %s", pause, error)
