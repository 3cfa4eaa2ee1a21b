"""Cube's products as a source of versions: base.txt and patch.txt, directories of SequenceFiles.

The version is the product's id. Cube's protocol has no checksums, so a product is known by its line alone, and its
files are only checked while they are read. A dictionary has one table, which has the dictionary's name. An empty value
is a missing row, as it is to Paddle Serving: in a patch, a row of the base that is deleted.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Hashable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.compat.cube import cube_donefiles
from clickline.compat.cube.cube_donefiles import Product
from clickline.compat.cube.locations import fetch_directory, is_web, join, read_bytes
from clickline.compat.cube.sequence_files import read_all
from clickline.cube.builder.builder import RowFile, VersionInput
from clickline.cube.builder.version_source import ChainLink, PublishedSource, VersionSource
from clickline.errors import DataError, VersionError
from clickline.files.digests import file_sha256
from clickline.versions.donefile import DONEFILE
from clickline.versions.store import open_store

_FILES = ("base.txt", "patch.txt")


class ProductSource:
    """Follows Cube's donefiles in a directory, local or not."""

    def __init__(self, address: str, *, table: str, bases_only: bool = False) -> None:
        self._address, self._table, self._bases_only = address, table, bases_only
        self._row_bytes: dict[int, int] = {}
        """Bytes of a row, by base that was read; 0 if its values differ in size."""

    def stamp(self) -> Hashable:
        return stamp_of(self._address, _FILES)

    def chain(self, version: int | None = None) -> list[ChainLink]:
        try:
            bases = cube_donefiles.read(self._address, "base")
            patches = [] if self._bases_only else cube_donefiles.read(self._address, "patch")
        except DataError as error:
            raise VersionError(str(error)) from None
        found = chain_of(bases, patches)
        if version is None:
            return found
        numbers = [link.version for link in found]
        if version not in numbers:
            listed = ", ".join(map(str, numbers)) or "none"
            raise VersionError(f"{self._address}: no version {version} of the last base; there are: {listed}")
        return found[: numbers.index(version) + 1]

    def rows(self, link: ChainLink, *, scratch: Path) -> VersionInput:
        folder = scratch / str(link.version)
        # The rest of an earlier attempt may be of other files: without checksums, it cannot be told.
        shutil.rmtree(folder, ignore_errors=True)
        try:
            fetch_directory(link.input, folder / "input")
            keys, offsets, content = _last_of_each(*read_all(folder / "input"))
            keys, offsets, content, empty = _without_empty(keys, offsets, content)
            path = folder / f"{self._table}.dict"
            sizes = np.diff(offsets)
            if not len(keys):  # it only deletes, or is empty: its rows would be as wide as those of its base
                width = self._width_of_base(link, scratch=scratch)
            else:
                # Values of one size are stored as rows; of several sizes, with an offset for each.
                width = int(sizes[0]) if (sizes == sizes[0]).all() else 0
            # Only the last base: patches of an earlier one are not delivered any more.
            if link.parent is None:
                self._row_bytes = {link.version: width}
            values = content.reshape(len(keys), width) if width else (offsets, content)
            # A base has nothing to delete: its empty values are simply rows that are missing.
            deleted = None if link.parent is None else empty
            _native.write_dictionary(str(path), keys, values, dtype=0, dim=0, deleted=deleted)
        except (DataError, ValueError, RuntimeError) as error:
            raise VersionError(f"{link.input}: {error}") from None
        file = RowFile(path, path.stat().st_size, file_sha256(path))
        return VersionInput(link.version, link.parent, link.base, link.digest, {self._table: [file]})

    def _width_of_base(self, link: ChainLink, *, scratch: Path) -> int:
        """Bytes of a row of the base, which a patch without rows does not show. Read again after a restart."""
        if link.parent is None:
            return 0
        if link.base not in self._row_bytes:
            base = next(one for one in self.chain() if one.version == link.base)
            self.rows(base, scratch=scratch / "base")
            shutil.rmtree(scratch / "base", ignore_errors=True)
        return self._row_bytes[link.base]


class DonefileSource:
    """Follows the kind of donefile that is there, ours or Cube's; ours, if both are."""

    def __init__(self, address: str, *, table: str, bases_only: bool = False) -> None:
        self._address, self._table, self._bases_only = address, table, bases_only
        self._found: VersionSource | None = None

    def stamp(self) -> Hashable:
        return stamp_of(self._address, (DONEFILE, *_FILES))

    def chain(self, version: int | None = None) -> list[ChainLink]:
        found = self._source()
        return [] if found is None else found.chain(version)

    def rows(self, link: ChainLink, *, scratch: Path) -> VersionInput:
        found = self._source()
        if found is None:
            raise VersionError(f"{self._address}: the donefile is gone")
        return found.rows(link, scratch=scratch)

    def _source(self) -> VersionSource | None:
        if self._found is None:
            if read_bytes(join(self._address, DONEFILE), limit=1 << 26) is not None:
                self._found = PublishedSource(open_store(self._address), bases_only=self._bases_only)
            elif any(read_bytes(join(self._address, name), limit=1 << 26) is not None for name in _FILES):
                self._found = ProductSource(self._address, table=self._table, bases_only=self._bases_only)
        return self._found


def chain_of(bases: list[Product], patches: list[Product]) -> list[ChainLink]:
    """The last base and its patches in order: each is a delta on the one before."""
    if not bases:
        return []
    base = bases[-1]
    found = [_link(base, parent=None)]
    for patch in patches:
        # Ids must grow along the chain, since an id is the version and a parent is lower than its delta.
        if patch.key == base.id and patch.id > found[-1].version:
            found.append(_link(patch, parent=found[-1].version))
    return found


def stamp_of(address: str, names: tuple[str, ...]) -> Hashable:
    """Changes with the files, if they lie on this machine; None if not."""
    if is_web(address) or "://" in address:
        return None
    found: list[Hashable] = []
    for name in names:
        try:
            file = (Path(address) / name).stat()
        except OSError:
            found.append(None)
        else:
            found.append((file.st_ino, file.st_size, file.st_mtime_ns))
    return tuple(found)


def _link(product: Product, *, parent: int | None) -> ChainLink:
    # Without checksums the line stands for the content: files that change under the same line go unnoticed.
    line = f"{product.kind} {product.id} {product.key} {product.input}"
    return ChainLink(
        version=product.id,
        parent=parent,
        base=product.key,
        input=product.input,
        digest=hashlib.sha256(line.encode()).hexdigest(),
    )


def _last_of_each(
    keys: NDArray[np.uint64], offsets: NDArray[np.uint64], content: NDArray[np.uint8]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]]:
    """A key that comes again has its last value, as when Cube's builder fills its index."""
    # np.unique gives the first place of each key; in reverse order that is the last one.
    _, first_from_behind = np.unique(keys[::-1], return_index=True)
    if len(first_from_behind) == len(keys):
        return keys, offsets, content
    chosen = np.sort(len(keys) - 1 - first_from_behind)
    sizes = np.diff(offsets)[chosen]
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)
    pieces = [content[int(offsets[index]) : int(offsets[index + 1])] for index in chosen.tolist()]
    return keys[chosen], bounds, np.concatenate(pieces)


def _without_empty(
    keys: NDArray[np.uint64], offsets: NDArray[np.uint64], content: NDArray[np.uint8]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8], NDArray[np.uint64]]:
    """Rows with a value, and the keys of those without."""
    empty = np.diff(offsets) == 0
    # Empty values take no bytes, so the starts of the others still follow each other without a gap.
    return keys[~empty], np.concatenate([offsets[:-1][~empty], offsets[-1:]]), content, keys[empty]
