"""Versions that predict, without a training run for each: made in milliseconds from one that was really trained.

The first version is published from a checkpoint. Those after it have its features and the shape of its network, but
other weights in it and other rows, drawn by version, so that no two of them predict the same. What a version predicts
is computed from its files alone, by the code that publishing checks versions with.
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from clickline import _native
from clickline.client.raw_rows import Instance, first_rows
from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.dataset import Dataset
from clickline.publish.parity import Published
from clickline.publish.publisher import Settings, publish
from clickline.versions import donefile
from clickline.versions.chain import Chain, LayeredRows, open_dictionary, opened
from clickline.versions.donefile import directory_of
from clickline.versions.golden_sample import Sample
from clickline.versions.manifest import MANIFEST, NETWORK, SAMPLE, FileFacts, Manifest, TableFacts
from clickline.versions.store import open_store

ROWS = 200
TOLERANCE = 1e-5


class ModelVersions:
    """A store, rows to ask for, and what each version must say to them."""

    def __init__(self, path: Path, checkpoint: Path, *, seed: int = 1) -> None:
        self.path, self._store = path, open_store(path)
        first = publish(checkpoint, self._store, Settings(kind="base", sample_rows=64))
        self._random = np.random.default_rng(seed)
        self._expected: dict[int, NDArray[np.float32]] = {}
        self._lock = threading.Lock()
        with opened(self._store, first.version) as chain:
            job, schema = Job.model_validate(first.job), chain.schema
            self._network = onnx.load_from_string(chain.network())
            self._sample = chain.sample().batch
        self.instances: list[Instance] = first_rows(job.data, schema, job.data.test, ROWS).instances
        dataset = Dataset(data=job.data, schema=schema, paths=job.data.test, batch_size=ROWS, seed=1, shuffle=False)
        with closing(dataset.batches(epoch=0)) as batches:
            self._batch: Batch = next(batches)[0]
        self._keys = np.unique(self._batch.keys)

    @property
    def last(self) -> int:
        return donefile.read(self._store).last

    def expected(self, version: int) -> NDArray[np.float32]:
        """Probabilities of all rows."""
        with self._lock:
            if version not in self._expected:
                with opened(self._store, version) as chain:
                    manifest = chain.manifest
                    published = Published(
                        inputs=manifest.inputs, schema=chain.schema, rows=chain.rows(), network=chain.network()
                    )
                    self._expected[version] = published.predict(self._batch)[:, 0]
            return self._expected[version]

    def explains(self, version: int, rows: NDArray[np.int64], said: NDArray[np.float64]) -> bool:
        """Whether this is what the version says, all of it."""
        return bool((np.abs(self.expected(version)[rows] - said) <= TOLERANCE).all())

    def base(self) -> int:
        return self._write("base")

    def delta(self) -> int:
        return self._write("delta")

    def _write(self, kind: str) -> int:
        with opened(self._store, self.last) as parent:
            version = parent.manifest.version + 1
            folder = self.path / directory_of(version)
            folder.mkdir()
            under = parent if kind == "delta" else None
            tables = {name: self._rows(folder, name, facts, under) for name, facts in parent.manifest.tables.items()}
            network = self._weights()
            (folder / NETWORK).write_bytes(network)
            layers = {
                name: [
                    *(under.layers[name] if under else ()),
                    open_dictionary(folder / f"{name}.dict", facts, shown=name),
                ]
                for name, facts in tables.items()
            }
            published = Published(
                inputs=parent.manifest.inputs,
                schema=parent.schema,
                rows={name: LayeredRows(found) for name, found in layers.items()},
                network=network,
            )
            Sample(self._sample, published.predict(self._sample)).write(folder / SAMPLE)
            manifest = parent.manifest.model_copy(
                update={
                    "version": version,
                    "kind": kind,
                    "parent": version - 1 if under else None,
                    "base": parent.manifest.base if under else version,
                    "tables": tables,
                    "files": {file.name: _facts(file) for file in folder.iterdir()},
                }
            )
            self._announce(folder, manifest, published)
        return version

    def _announce(self, folder: Path, manifest: Manifest, _published: Published) -> None:
        content = Manifest.model_validate(manifest.model_dump(by_alias=True)).encoded()
        (folder / MANIFEST).write_bytes(content)
        donefile.append_version(
            self._store,
            version=manifest.version,
            kind=manifest.kind,
            parent=manifest.parent,
            sha256=hashlib.sha256(content).hexdigest(),
        )

    def _rows(self, folder: Path, name: str, facts: TableFacts, under: Chain | None) -> TableFacts:
        """Other rows: most of what is asked for in a base; a part of it in a delta, which deletes some, too."""
        drawn = self._random.permutation(self._keys)
        written = len(drawn) * 9 // 10 if under is None else len(drawn) // 4
        keys, deleted = drawn[:written], drawn[written : written + (0 if under is None else len(drawn) // 20)]
        rows = self._random.normal(0, 0.3, (len(keys), facts.dim)).astype(np.float32)
        values = _native.encode_rows(rows, 1)
        _native.write_dictionary(str(folder / f"{name}.dict"), keys, values, dtype=1, dim=facts.dim, deleted=deleted)
        total = len(keys)
        if under is not None:
            there = _native.Layers(under.layers[name])
            before = [int((there.lookup(some)[0] == 0).sum()) for some in (keys, deleted)]
            total = facts.total + len(keys) - sum(before)
        return TableFacts(
            dim=facts.dim, dtype="fp32", rows=len(keys), deleted=len(deleted), total=total, files=[f"{name}.dict"]
        )

    def _weights(self) -> bytes:
        changed = onnx.ModelProto()
        changed.CopyFrom(self._network)
        for tensor in changed.graph.initializer:
            if tensor.name.startswith("model."):  # others are constants of its formulas, such as exponents
                weights = numpy_helper.to_array(tensor)
                moved = weights * np.exp(self._random.normal(0, 0.2, weights.shape)).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(moved), tensor.name))
        content: bytes = changed.SerializeToString()
        return content


def _facts(file: Path) -> FileFacts:
    content = file.read_bytes()
    return FileFacts(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
