"""Published versions without a training run: rows are functions of their key and the version that wrote them."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clickline import _native
from clickline.versions import donefile
from clickline.versions.store import open_store

DIM = 4


def rows_of(keys: NDArray[np.uint64], version: ArrayLike, *, dim: int = DIM) -> NDArray[np.float32]:
    """What version `version` wrote for these keys; or one version for each key."""
    low = (keys % np.uint64(1000)).astype(np.float32)[:, None]
    thousands = np.asarray(version, np.float32).reshape(-1, 1) * 1000
    return np.ascontiguousarray(low + thousands + np.arange(dim, dtype=np.float32) / 10)


class VersionStore:
    """A store, and what a reader of each of its versions must see."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.expected: dict[int, dict[str, dict[int, int]]] = {}
        """By version and table: key → the version that wrote its row."""

    @property
    def last(self) -> int:
        return donefile.read(open_store(self.path)).last

    def base(self, keys: NDArray[np.uint64], *, tables: tuple[str, ...] = ("embedding",), announce: bool = True) -> int:
        return self._write(keys, np.zeros(0, np.uint64), None, tables, announce)

    def same_base(self) -> int:
        """A base with the rows of the last version, as they were written then: the sum of a chain."""
        held = self.expected[self.last]
        keys = np.array(sorted(held["embedding"]), np.uint64)
        return self._write(keys, np.zeros(0, np.uint64), None, tuple(held), True, wrote=held)

    def delta(
        self,
        keys: NDArray[np.uint64],
        deleted: NDArray[np.uint64] | None = None,
        *,
        tables: tuple[str, ...] = ("embedding",),
        announce: bool = True,
    ) -> int:
        return self._write(keys, np.zeros(0, np.uint64) if deleted is None else deleted, self.last, tables, announce)

    def announce(self, version: int) -> None:
        """The donefile's line, which comes last."""
        folder = self.path / donefile.directory_of(version)
        text = (folder / "manifest.json").read_bytes()
        manifest = json.loads(text)
        donefile.append_version(
            open_store(self.path),
            version=version,
            kind=manifest["kind"],
            parent=manifest["parent"],
            sha256=hashlib.sha256(text).hexdigest(),
        )

    def _write(
        self,
        keys: NDArray[np.uint64],
        deleted: NDArray[np.uint64],
        parent: int | None,
        tables: tuple[str, ...],
        announce: bool,
        wrote: dict[str, dict[int, int]] | None = None,
    ) -> int:
        version = self.last + 1
        folder = self.path / donefile.directory_of(version)
        folder.mkdir()
        before = self.expected.get(parent or 0, {})
        self.expected[version] = {}
        base = version if parent is None else self._base_of(parent)
        facts = {}
        for number, table in enumerate(tables):
            dim = DIM * (number + 1)
            writers = dict.fromkeys(keys.tolist(), version) if wrote is None else wrote[table]
            values = _native.encode_rows(rows_of(keys, [writers[key] for key in keys.tolist()], dim=dim), 1)
            _native.write_dictionary(str(folder / f"{table}.dict"), keys, values, dtype=1, dim=dim, deleted=deleted)
            seen = dict(before.get(table, {}))
            for key in deleted.tolist():
                seen.pop(key, None)
            seen.update(writers)
            self.expected[version][table] = seen
            facts[table] = {
                "dim": dim,
                "dtype": "fp32",
                "rows": len(keys),
                "deleted": len(deleted),
                "total": len(seen),
                "files": [f"{table}.dict"],
            }
        (folder / "network.onnx").write_bytes(b"network")
        (folder / "sample.safetensors").write_bytes(b"sample")
        files = {
            path.name: {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
            for path in folder.iterdir()
        }
        manifest = {
            "format": 1,
            "version": version,
            "kind": "base" if parent is None else "delta",
            "parent": parent,
            "base": base,
            "created": time.time(),
            "tables": facts,
            "network": "network.onnx",
            "inputs": {},
            "outputs": {},
            "sample": "sample.safetensors",
            "files": files,
            "watermark": None,
            "training": {},
            "parity": {},
            "job": {},
            "schema": {},
        }
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        if announce:
            self.announce(version)
        return version

    def _base_of(self, version: int) -> int:
        text = (self.path / donefile.directory_of(version) / "manifest.json").read_text(encoding="utf-8")
        return int(json.loads(text)["base"])


def keys_from(first: int, last: int) -> NDArray[np.uint64]:
    return np.arange(first, last, dtype=np.uint64)
