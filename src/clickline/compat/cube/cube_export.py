"""A published version in the formats of ElasticCTR's Cube: SequenceFiles with donefiles, or text.

    DIR/embedding/12/base/feature           rows of version 12, a base
    DIR/embedding/13/patch/feature          rows of version 13, a delta on it
    DIR/embedding/donefile/base.txt         one line for 12
    DIR/embedding/donefile/patch.txt        one line for 13

A Cube has one table in a dictionary, so every table is exported to a directory of its own. A key that a delta deletes
has an empty value, which Paddle Serving takes for a missing row. A product is written aside and renamed, and announced
last; what a killed process left is removed by the next one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.compat.cube import cube_donefiles
from clickline.compat.cube.cube_donefiles import Product
from clickline.compat.cube.sequence_files import writing
from clickline.errors import DataError, VersionError
from clickline.files.atomic import sync_directory
from clickline.files.leftovers import being_written
from clickline.versions.chain import Chain, opened
from clickline.versions.manifest import DTYPES
from clickline.versions.store import Store

Format = Literal["sequencefile", "text"]
Progress = Callable[[float, str], None]
DONEFILES = "donefile"
_ROWS = 65_536
"""Rows that are converted at a time."""
_FP16 = DTYPES["fp16"]
_WRITING = ".writing-"


@dataclass(frozen=True)
class ExportedProduct:
    """The rows of one table in one version."""

    table: str
    id: int
    """The version's number."""
    key: int
    """The number of its base."""
    kind: Literal["base", "patch"]
    input: str
    rows: int
    deleted: int


def export_version(
    store: Store,
    version: int,
    to: Path,
    *,
    format: Format = "sequencefile",
    prefix: str | None = None,
    progress: Progress = lambda share, table: None,
) -> list[ExportedProduct]:
    """Export a version with all that it stands on, except for what is in `to` already. Gives what was written.

    `prefix` is how readers of the donefiles name `to`, where that differs, as with a file server.
    """
    seen_as = (prefix if prefix is not None else str(to.absolute())).rstrip("/")
    done: list[ExportedProduct] = []
    with opened(store, version) as chain:
        if not chain.layers:
            raise VersionError(f"{store.url}: version {version} has no tables to export")
        for number, table in enumerate(chain.layers):
            begin, end = number / len(chain.layers), (number + 1) / len(chain.layers)

            # Defaults bind the values of this round; a closure would see those of the last one.
            def report(share: float, begin: float = begin, end: float = end, table: str = table) -> None:
                progress(begin + (end - begin) * share, table)

            directory = _TableDirectory(to / table, f"{seen_as}/{table}", format=format)
            done += directory.add(table, _layers(chain, table), progress=report)
    return done


@dataclass(frozen=True)
class _Layer:
    """What one version has of one table."""

    version: int
    base: int
    files: Sequence[_native.Dictionary]

    @property
    def kind(self) -> Literal["base", "patch"]:
        return "base" if self.version == self.base else "patch"


def _layers(chain: Chain, table: str) -> list[_Layer]:
    files = iter(chain.layers[table])
    return [
        _Layer(manifest.version, manifest.base, [next(files) for _ in manifest.tables[table].files])
        for manifest in chain.manifests
    ]


class _TableDirectory:
    """The products of one table, and their donefiles."""

    def __init__(self, path: Path, seen_as: str, *, format: Format) -> None:
        self._path, self._seen_as, self._format = path, seen_as, format

    def add(self, table: str, layers: list[_Layer], *, progress: Callable[[float], None]) -> list[ExportedProduct]:
        announced = self._announced(layers[-1].version)
        new = [layer for layer in layers if layer.version not in announced]
        found = []
        for number, layer in enumerate(new):
            name = f"{layer.version}/{layer.kind}"

            def report(share: float, number: int = number) -> None:
                progress((number + share) / len(new))

            try:
                rows, deleted = self._write(layer, report)
            except OSError as error:
                raise DataError(f"'{self._path}' cannot be written: {error.strerror or error}") from None
            product = ExportedProduct(
                table, layer.version, layer.base, layer.kind, f"{self._seen_as}/{name}", rows, deleted
            )
            # Last: a reader of the donefile finds the product complete. After a crash before this it is written anew.
            if self._format == "sequencefile":
                key = None if layer.kind == "base" else layer.base
                cube_donefiles.append(
                    str(self._path / DONEFILES), layer.kind, id=layer.version, key=key, input=product.input
                )
            found.append(product)
        progress(1.0)
        return found

    def _announced(self, version: int) -> set[int]:
        """Products that are here already. A donefile only grows, so none may be newer than the version."""
        if self._format == "text":
            return set()
        donefiles = str(self._path / DONEFILES)
        products: list[Product] = [*cube_donefiles.read(donefiles, "base"), *cube_donefiles.read(donefiles, "patch")]
        if (newest := max((product.id for product in products), default=0)) > version:
            raise DataError(
                f"'{donefiles}' has version {newest} already, and readers of it never go back to {version}: export to "
                "another directory"
            )
        return {product.id for product in products}

    def _write(self, layer: _Layer, progress: Callable[[float], None]) -> tuple[int, int]:
        total = sum(file.count + file.deleted for file in layer.files) or 1
        done = 0
        with being_written(self._path / f"{_WRITING}{layer.version}", anew=True) as aside:
            for number, file in enumerate(layer.files):
                name = "feature" if len(layer.files) == 1 else f"feature-{number:04d}"
                writer = _write_sequence if self._format == "sequencefile" else _write_text
                for count in writer(aside / name, file):
                    done += count
                    progress(done / total)
            sync_directory(aside)
            target = self._path / str(layer.version) / layer.kind
            target.parent.mkdir(exist_ok=True)
            shutil.rmtree(target, ignore_errors=True)  # left by a process that was killed before it announced it
            aside.rename(target)
            sync_directory(target.parent)
            sync_directory(self._path)
        return sum(file.count for file in layer.files), sum(file.deleted for file in layer.files)


def _write_sequence(path: Path, file: _native.Dictionary) -> Iterator[int]:
    # A fixed sync mark: exporting the same version again gives the same bytes.
    with writing(path, seed=0) as writer:
        for keys, values in _rows(file):
            # Cube has no rows of 16 bits: they are written as 32.
            wide = file.dtype == _FP16
            rows = _native.decode_rows(values, file.dtype, file.dim).view(np.uint8) if wide else values
            writer.append(keys, rows)
            yield len(keys)
        # n + 1 offsets that are all zero: n keys, each with an empty value.
        deleted = np.ascontiguousarray(file.deleted_keys())
        writer.append(deleted, np.zeros(0, np.uint8), np.zeros(len(deleted) + 1, np.uint64))
        yield len(deleted)


def _write_text(path: Path, file: _native.Dictionary) -> Iterator[int]:
    with path.open("wb") as text:
        for keys, values in _rows(file):
            numbers = _native.decode_rows(values, file.dtype, file.dim)
            # Numbers of 32 bits, not Python's of 64: the shortest text that is read back exactly.
            lines = (f"{key}:{' '.join(map(str, row))}\n" for key, row in zip(keys.tolist(), numbers, strict=True))
            text.write("".join(lines).encode())
            yield len(keys)
        deleted = file.deleted_keys().tolist()
        text.write("".join(f"{key}:\n" for key in deleted).encode())
        yield len(deleted)


def _rows(file: _native.Dictionary) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint8]]]:
    keys, values = file.keys(), file.values()
    for begin in range(0, file.count, _ROWS):
        yield (
            np.ascontiguousarray(keys[begin : begin + _ROWS]),
            np.ascontiguousarray(values[begin : begin + _ROWS]),
        )
