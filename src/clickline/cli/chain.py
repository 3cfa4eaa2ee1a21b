"""The chain behind training, for `clickline up`: publish, deliver to a cube on this machine, read back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clickline.train.watching import Watcher

SHARDS, REPLICAS, NAME = 2, 2, "cube"


def deliver(checkpoint: Path, state: Path, watcher: Watcher) -> dict[str, Any]:
    """Publish a checkpoint into STATE/versions, have it served by processes under STATE/cube, compare every row."""
    from clickline.cube.client import Cube
    from clickline.cube.comparing import compare_rows
    from clickline.errors import VersionError
    from clickline.launch.cubes import LocalCube
    from clickline.publish.publishing import Settings, publish
    from clickline.publish.stores import open_store
    from clickline.publish.trained import open_trained

    versions = state / "versions"
    manifest = publish(checkpoint, open_store(str(versions)), Settings(), watcher=watcher)
    watcher.begin(f"delivering version {manifest.version} to {SHARDS} shards × {REPLICAS} replicas")
    try:
        with LocalCube(
            state / "cube", store=versions, shards=SHARDS, replicas=REPLICAS, name=NAME, on_event=watcher.say
        ) as local:
            local.wait_for(manifest.version)
            watcher.end()
            watcher.begin("reading every row back")
            with Cube.connect(local.servers, name=NAME, token=local.token.encode(), timeout=10.0) as cube:
                found = compare_rows(
                    cube,
                    open_trained(checkpoint).learner.sparse.tables,
                    version=manifest.version,
                    progress=lambda done, all_: watcher.advance(share=done / all_, facts={"rows": f"{done:,}"}),
                )
    finally:
        watcher.end()
    if not found.equal:
        raise VersionError(
            f"version {found.version}: of {found.rows:,} rows read back from the cube, {found.missing:,} were missing "
            f"and {found.different:,} differ from the trainer's"
        )
    return {
        "version": manifest.version,
        "kind": manifest.kind,
        "store": str(versions),
        "rows_read_back": found.rows,
        "rows_equal": found.rows - found.missing - found.different,
    }
