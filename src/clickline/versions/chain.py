"""A version as a reader sees it: its base and the deltas on it, opened and layered.

A delta applies only on its parent, so a chain is refused as a whole if a link is missing, or if its links do not agree
on tables, dimensions and row types. Files of a store that is not on this machine are copied first, since dictionaries
are mapped: to a scratch directory, or to a cache that all processes of this machine share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, VersionError
from clickline.versions import donefile
from clickline.versions.donefile import Donefile, directory_of
from clickline.versions.golden_sample import Sample, read_sample
from clickline.versions.manifest import DTYPES, Manifest, TableFacts
from clickline.versions.store import Store
from clickline.versions.version_cache import ScratchFiles, VersionCache


class NeedsBaseError(VersionError):
    """Raised when a delta cannot lie on its parent; its message says that a base must be published."""


@dataclass(frozen=True)
class Chain:
    """A version, its rows ready to be looked up."""

    manifests: list[Manifest]
    """The base first, the version itself last."""
    layers: Mapping[str, list[_native.Dictionary]]
    """By table, in the same order."""
    place: Path
    """Directory of the version's other files on this machine."""
    files: Mapping[str, _native.Dictionary] = field(default_factory=dict, repr=False)
    """The same row files by their SHA-256: the next version has most of them, too."""

    @property
    def manifest(self) -> Manifest:
        return self.manifests[-1]

    @property
    def schema(self) -> Schema:
        try:
            return Schema.from_dict(self.manifest.data_schema)
        except CheckpointError as error:
            raise VersionError(f"version {self.manifest.version}: {error}") from error

    def rows(self) -> dict[str, LayeredRows]:
        """The rows of each table, to pull from."""
        return {name: LayeredRows(layers) for name, layers in self.layers.items()}

    def network(self) -> bytes:
        return (self.place / self.manifest.network).read_bytes()

    def sample(self) -> Sample:
        return read_sample(self.place / self.manifest.sample, schema=self.schema)


class LayeredRows:
    """Rows of published files with the interface of a table. Missing rows are zeros."""

    def __init__(self, layers: list[_native.Dictionary]) -> None:
        self._layers = _native.Layers(layers)
        self._dtype, self.dim = layers[0].dtype, layers[0].dim

    def pull(
        self,
        keys: NDArray[np.uint64],
        out: NDArray[np.float32],
        *,
        training: bool,
        slots: NDArray[np.uint16] | None = None,
        threads: int = 1,
    ) -> None:
        if training:
            raise ValueError("published rows do not learn; pull with training=False")
        _, values = self._layers.lookup(keys, threads=threads)
        out[:] = _native.decode_rows(values, self._dtype, self.dim)


@contextmanager
def opened(
    store: Store,
    version: int,
    *,
    done: Donefile | None = None,
    known: Mapping[str, _native.Dictionary] | None = None,
    cache: VersionCache | None = None,
) -> Iterator[Chain]:
    """A version with all that it stands on, every file compared with the SHA-256 in its manifest.

    `known` are row files of another version that is open, by SHA-256: they are neither fetched, hashed nor mapped
    again. What was mapped stays readable when this ends, as long as it is referenced. `cache` keeps copies of the files
    of a remote store.
    """
    done = donefile.read(store) if done is None else done
    entries = done.chain(version, where=store.url)
    copies = ScratchFiles.of(store) if cache is None else cache.opening(entry.version for entry in entries)
    with copies as local:
        manifests = [local.manifest(entry) for entry in entries]
        # Compared from the manifests alone, before any row file is downloaded, hashed or mapped.
        for parent, child in pairwise(manifests):
            check_fits(parent, child.tables, where=store.shown(directory_of(child.version)))
        layers: dict[str, list[_native.Dictionary]] = {}
        files: dict[str, _native.Dictionary] = {}
        # Base first: a reader looks a key up from the last layer to the first.
        for manifest in manifests:
            folder = directory_of(manifest.version)
            for name, table in manifest.tables.items():
                dictionaries = []
                shown = [store.shown(f"{folder}/{file}") for file in table.files]
                for file, text in zip(table.files, shown, strict=True):
                    digest = manifest.files[file].sha256
                    held = None if known is None else known.get(digest)
                    if held is None:
                        held = open_dictionary(local.path(manifest, file), table, shown=text)
                    else:
                        # Matched by content only: the manifest of this version may describe the same bytes differently.
                        check_rows(held, table, shown=text)
                    files[digest] = held
                    dictionaries.append(held)
                # A manifest that counts other rows than its files have is not the manifest of these files.
                counted = sum(each.count for each in dictionaries), sum(each.deleted for each in dictionaries)
                if counted != (table.rows, table.deleted):
                    raise VersionError(
                        f"{shown[0]}: {counted[0]} rows and {counted[1]} deleted; the manifest says {table.rows} and "
                        f"{table.deleted}"
                    )
                layers.setdefault(name, []).extend(dictionaries)
        last = manifests[-1]
        # Only the last version's network and sample are read; those of its parents are never fetched.
        local.path(last, last.sample)
        yield Chain(manifests, layers, local.path(last, last.network).parent, files)


@contextmanager
def opened_without_rows(
    store: Store, version: int, *, done: Donefile, cache: VersionCache | None = None
) -> Iterator[Chain]:
    """A version whose rows are read from elsewhere, such as a cube: manifest, network, sample."""
    entry = done.entry(version, where=store.url)
    with ScratchFiles.of(store) if cache is None else cache.opening([version]) as local:
        manifest = local.manifest(entry)
        local.path(manifest, manifest.sample)
        yield Chain([manifest], {}, local.path(manifest, manifest.network).parent)


def check_fits(parent: Manifest, tables: Mapping[str, TableFacts], *, where: str) -> None:
    """Refuse tables that cannot lie over those of the parent. Raises NeedsBaseError."""
    if parent.tables.keys() != tables.keys():
        raise NeedsBaseError(
            f"{where}: tables {', '.join(tables)} on version {parent.version} with {', '.join(parent.tables)}; "
            "a delta must have its parent's: publish a base"
        )
    for name, table in tables.items():
        before = parent.tables[name]
        if (table.dim, table.dtype) != (before.dim, before.dtype):
            raise NeedsBaseError(
                f"{where}: table {name} has {table.dtype} rows of dim {table.dim}, version {parent.version} has "
                f"{before.dtype} of {before.dim}; a delta must have its parent's: publish a base"
            )


def open_dictionary(path: Path, table: TableFacts, *, shown: str) -> _native.Dictionary:
    """Map a row file; refused unless it holds what the manifest says."""
    try:
        dictionary = _native.Dictionary(str(path))
    except (RuntimeError, OSError, ValueError) as error:
        raise VersionError(f"{shown}: {error}") from error
    check_rows(dictionary, table, shown=shown)
    return dictionary


def check_rows(dictionary: _native.Dictionary, table: TableFacts, *, shown: str) -> None:
    """Refuse a row file that does not hold what the manifest says."""
    if (dictionary.dim, dictionary.dtype) != (table.dim, DTYPES[table.dtype]):
        raise VersionError(
            f"{shown}: rows of dim {dictionary.dim} and type {dictionary.dtype}; the manifest says {table.dim} and "
            f"{DTYPES[table.dtype]} ({table.dtype})"
        )
