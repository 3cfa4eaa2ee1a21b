"""The versions of a store: what there is, whether it is whole, how two differ, which to keep, which to serve.

To list them needs neither NumPy nor ONNX, which what compares versions imports where it needs them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from clickline.errors import VersionError
from clickline.files.digests import stream_sha256
from clickline.versions import donefile
from clickline.versions.donefile import Donefile, directory_of, manifest_of
from clickline.versions.manifest import MANIFEST, Manifest, read_manifest
from clickline.versions.store import WRITING, Store

if TYPE_CHECKING:
    from clickline import _native
    from clickline.versions.chain import Chain

_TRAINING = ("run", "step", "rows", "auc", "auc_on", "rmse", "rmse_on", "job_digest")
"""Of what a manifest says of its training, the keys that a list of versions has."""
_DIRECTORY = re.compile(r"v(\d{10})")


class TableCounts(TypedDict):
    """Rows of one table: in the version's files, deleted by it, and all that a reader sees."""

    rows: int
    deleted: int
    total: int


class VersionSummary(TypedDict):
    """A version in a few facts, for people and programs."""

    version: int
    kind: str
    parent: int | None
    base: int
    dtype: str
    created: float
    watermark: int | None
    bytes: int
    tables: dict[str, TableCounts]
    training: Mapping[str, Any]
    parity: Mapping[str, Any]


class ListedVersion(VersionSummary):
    """A version in a few facts, and whether it is the one to serve."""

    serving: bool


class VersionDifference(TypedDict):
    """How two versions differ: rows by table, and the largest difference of a parameter of the network."""

    same: bool
    versions: list[int]
    network_max_difference: float | None
    tables: dict[str, dict[str, int]]


def list_versions(store: Store) -> list[ListedVersion]:
    """Every version in a few facts, oldest first."""
    done = donefile.read(store)
    return [
        {**summary(read_manifest(store, entry)), "serving": number == done.serving}
        for number, entry in done.entries.items()
    ]


def show(store: Store, version: int | None) -> Manifest:
    """A version's manifest; without a number, that of the one to serve."""
    done = donefile.read(store)
    return read_manifest(store, done.entry(_chosen(store, done, version), where=store.url))


def verify(store: Store, version: int) -> int:
    """Raise unless every file of a version, and of what it stands on, is as its manifest says; returns how many."""
    from clickline.versions.chain import opened

    done = donefile.read(store)
    manifests = [read_manifest(store, entry) for entry in done.chain(version, where=store.url)]
    for manifest in manifests:
        _verify_files(store, manifest)
    with opened(store, version, done=done) as chain:  # links fit, and row files are what the manifest says
        for layers in chain.layers.values():
            for layer in layers:
                _verify_rows(layer)
    return sum(len(manifest.files) + 1 for manifest in manifests)


def difference(store: Store, one: int, other: int) -> VersionDifference:
    """How version `other` differs from `one`: rows by table, parameters of the network."""
    from clickline.versions.chain import opened

    done = donefile.read(store)
    with opened(store, one, done=done) as left, opened(store, other, done=done) as right:
        alone = sorted(left.layers.keys() ^ right.layers.keys())
        tables: dict[str, dict[str, int]] = {name: {"only in one": 1} for name in alone}
        for name in sorted(left.layers.keys() & right.layers.keys()):
            tables[name] = _table_difference(left, right, name)
        dense = _network_difference(left.network(), right.network())
    same = dense == 0 and not any(count for table in tables.values() for count in table.values())
    return {"same": same, "versions": [one, other], "network_max_difference": dense, "tables": tables}


def keep(store: Store, count: int) -> list[int]:
    """Remove all but the newest versions, the one to serve, and what these stand on. Returns those removed."""
    if count < 1:
        raise VersionError(f"at least 1 version is kept, not {count}")
    # A publisher at work reads its parent's files, so nothing is removed meanwhile.
    with store.locked("publishing"):
        done = donefile.read(store)
        needed = {*list(done.entries)[-count:], *([done.serving] if done.serving else [])}
        for version in sorted(needed):
            needed.update(entry.version for entry in done.chain(version, where=store.url))
        removed = [version for version in done.entries if version not in needed]
        if removed:
            # The line first, the files after: a crash in between leaves directories that no line names, which the next
            # `clean` removes. The other order would leave a listed version without its files.
            donefile.append_removal(store, versions=removed)
        clean(store, donefile.read(store))
    return removed


def rollback(store: Store, to: int | None = None) -> tuple[int, int]:
    """Make an earlier version the one to serve, by default the one before. Returns it and the one served until now."""
    done = donefile.read(store)
    serving = _chosen(store, done, None)
    if to is None:
        to = max((version for version in done.entries if version < serving), default=0)
        if to == 0:
            raise VersionError(f"{store.url}: there is no version before {serving} to go back to")
    if to == serving:
        raise VersionError(f"{store.url}: version {to} is the one that is served already")
    # A version with a damaged manifest in its chain must not become the one to serve.
    for entry in done.chain(to, where=store.url):
        read_manifest(store, entry)
    donefile.append_rollback(store, to=to)
    return to, serving


def clean(store: Store, done: Donefile) -> None:
    """Remove what dead publishers and removals have left. Only for the holder of the lock of publishing."""
    left = []
    for name in store.names():
        match = _DIRECTORY.fullmatch(name)
        number = int(match[1]) if match else 0
        # A dead publisher leaves at most the directory of the next number. Higher ones mean that donefile lines were
        # lost, and sound versions would be deleted.
        if number > done.last + 1:
            raise VersionError(
                f"{store.shown(name)}: there, but {donefile.DONEFILE} ends at version {done.last}; lines of it are "
                "lost: restore it, or move the directory away"
            )
        if name.startswith(WRITING) or (number and number not in done.entries):
            left.append(name)
    # Only after the loop: the refusal above must come before anything is removed.
    for name in left:
        store.remove(name)


def summary(manifest: Manifest) -> VersionSummary:
    """A version in a few facts, for people and programs."""
    return {
        "version": manifest.version,
        "kind": manifest.kind,
        "parent": manifest.parent,
        "base": manifest.base,
        "dtype": manifest.dtype,
        "created": manifest.created,
        "watermark": manifest.watermark,
        "bytes": sum(file.bytes for file in manifest.files.values()),
        "tables": {
            name: {"rows": table.rows, "deleted": table.deleted, "total": table.total}
            for name, table in manifest.tables.items()
        },
        "training": {key: manifest.training.get(key) for key in _TRAINING},
        "parity": manifest.parity,
    }


def _chosen(store: Store, done: Donefile, version: int | None) -> int:
    if version is not None:
        return version
    if done.serving is None:
        raise VersionError(f"{store.url}: no version has been published there")
    return done.serving


def _verify_files(store: Store, manifest: Manifest) -> None:
    folder = directory_of(manifest.version)
    names = set(store.names(folder)) - {MANIFEST}
    for name in sorted(manifest.files.keys() - names):
        raise VersionError(f"{store.shown(f'{folder}/{name}')}: missing")
    for name in sorted(names - manifest.files.keys()):
        raise VersionError(f"{store.shown(f'{folder}/{name}')}: not in {manifest_of(manifest.version)}")
    for name, expected in sorted(manifest.files.items()):
        size, digest = stream_sha256(store.pieces(f"{folder}/{name}"), limit=expected.bytes)
        if (size, digest) != (expected.bytes, expected.sha256):
            counted = f"more than {expected.bytes}" if size > expected.bytes else f"{size}"
            raise VersionError(
                f"{store.shown(f'{folder}/{name}')}: damaged: {counted} bytes with SHA-256 "
                f"{digest[:12]}…, the manifest says {expected.bytes} and {expected.sha256[:12]}…"
            )


def _verify_rows(layer: _native.Dictionary) -> None:
    try:
        layer.verify()
    except RuntimeError as error:
        raise VersionError(str(error)) from error


def _table_difference(left: Chain, right: Chain, name: str) -> dict[str, int]:
    import numpy as np

    from clickline import _native
    from clickline.files.leftovers import scratch_directory

    before, after = left.layers[name], right.layers[name]
    if (before[0].dim, before[0].dtype) != (after[0].dim, after[0].dtype):
        return {"of another shape": 1}
    with scratch_directory("clickline-difference-") as scratch:
        path = str(scratch / "difference.dict")
        counts = _native.difference_dictionary(path, before, after)
        status, _ = _native.Layers(before).lookup(_native.Dictionary(path).keys())
    # Status 0: the key has a row in `before`. The difference has it because its bytes changed; other keys are new.
    changed = int((np.asarray(status) == 0).sum())
    return {"rows added": counts["count"] - changed, "rows changed": changed, "rows removed": counts["deleted"]}


def _network_difference(one: bytes, other: bytes) -> float | None:
    """The largest difference between two parameters of the same name; None if the networks are not alike."""
    import numpy as np

    from clickline.versions.network_parameters import parameters

    left, right = parameters(one), parameters(other)
    if {name: value.shape for name, value in left.items()} != {name: value.shape for name, value in right.items()}:
        return None
    return max(
        (
            float(np.abs(left[name].astype(np.float64) - right[name].astype(np.float64)).max())
            for name in left
            if left[name].size
        ),
        default=0.0,
    )
