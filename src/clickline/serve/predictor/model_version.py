"""A version of a model, ready to predict: its network, its rows, its feature reader. It never changes.

A request that holds a version finishes with it, whatever is served meanwhile; memory and mapped files are released with
the last reference. So nothing in here may refer to the served model that holds it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.cube.cube_client import Cube
from clickline.data.batch import Batch
from clickline.errors import VersionError
from clickline.serve.metrics.counters import series
from clickline.serve.metrics.metric_sink import MetricSink, NoMetrics
from clickline.serve.predictor.feature_reader import FeatureReader
from clickline.serve.predictor.input_builder import InputBuilder, NetworkInputs, RowSource
from clickline.serve.predictor.request_cache import RequestCache
from clickline.serve.predictor.row_sources import CubeRows, Failure, LocalRows
from clickline.versions.chain import Chain, opened, opened_without_rows
from clickline.versions.donefile import Donefile
from clickline.versions.golden_sample import Sample
from clickline.versions.manifest import Manifest
from clickline.versions.network import OUTPUT, Network
from clickline.versions.store import Store
from clickline.versions.version_cache import VersionCache

_WARM = (1, 16)
"""Sizes that a network is run with before it serves, besides the sample's own."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CacheSizes:
    """Bytes of the caches of one loaded version; 0: none."""

    rows: int = 0
    requests: int = 0


NO_CACHES = CacheSizes()


class VersionRows(RowSource, Protocol):
    """The rows of a version."""

    def strictly(self) -> RowSource:
        """The same rows, where those that cannot be read are an error whatever is configured."""


class RowReadLog:
    """Logs what reading rows costs, once for every so many requests."""

    def __init__(self, *, every: int = 1000) -> None:
        self._every = every
        self._requests = self._keys = 0
        self._seconds = 0.0

    def add(self, requests: int, keys: int, seconds: float) -> None:
        self._requests += requests
        self._keys += keys
        self._seconds += seconds
        if self._requests < self._every:
            return
        microseconds = self._seconds * 1e6
        _log.info(
            "reading rows: %.1f us/request, %.3f us/key over the last %d requests",
            microseconds / self._requests,
            microseconds / max(self._keys, 1),
            self._requests,
        )
        self._requests = self._keys = 0
        self._seconds = 0.0


@dataclass(frozen=True, slots=True)
class VersionOptions:
    """How the versions of one model are loaded, predict and are counted: the same for all of them."""

    cache: VersionCache | None = None
    """Where copies of files are kept, for a store that is not on this machine."""
    model: str = ""
    """Its name in the metrics."""
    caches: CacheSizes = NO_CACHES
    threads: int = 1
    counts: MetricSink = field(default_factory=NoMetrics)
    row_reads: RowReadLog = field(default_factory=RowReadLog)


class ModelVersion:
    """One version. Any number of threads may predict with it."""

    def __init__(
        self, chain: Chain, source: VersionRows, *, digest: str, options: VersionOptions, layout: int = 0
    ) -> None:
        self.requests = RequestCache(options.caches.requests) if options.caches.requests else None
        """Results of earlier requests, if they are to be kept."""
        self.manifest: Manifest = chain.manifest
        self.version = self.manifest.version
        self.digest = digest
        """SHA-256 of the manifest: the same number with another digest is another version."""
        self.layout = layout
        """Epoch of the cube's layout that it reads from; 0: it reads from files."""
        self.schema = chain.schema
        self.labels, self.output = self.schema.labels, self.schema.output
        self.reader = FeatureReader(self.schema, unread=self.manifest.unread)
        self.created = self.manifest.created
        self.watermark = self.manifest.watermark
        self.files: Mapping[str, _native.Dictionary] = chain.files
        """Row files by SHA-256."""
        self._source, self._threads = source, options.threads
        self._counts, self._row_reads = options.counts, options.row_reads
        self._rows_series, self._network_series = series("rows", options.model), series("network", options.model)
        self._network = Network(chain.network(), name=f"network of version {self.version}", threads=options.threads)
        if OUTPUT not in self._network.outputs:
            raise VersionError(f"version {self.version}: its network has no output {OUTPUT}")
        self._input_builder = InputBuilder(
            self.manifest.inputs, self.schema, names=tuple(self._network.inputs), tables=self.manifest.tables
        )

    @classmethod
    def from_files(
        cls,
        store: Store,
        number: int,
        *,
        done: Donefile,
        options: VersionOptions,
        known: Mapping[str, _native.Dictionary] | None = None,
    ) -> Self:
        """Load and check a version with rows from the store's own files. `known`: files that are mapped already."""
        with opened(store, number, done=done, known=known, cache=options.cache) as chain:
            version = cls(chain, LocalRows(chain.layers), digest=done.entries[number].sha256, options=options)
            # Inside the block, which may remove copies of a remote store at its end; mapped row files stay readable.
            version.check(chain.sample())
        return version

    @classmethod
    def from_cube(
        cls,
        store: Store,
        number: int,
        *,
        done: Donefile,
        options: VersionOptions,
        cube: Cube,
        layout: int = 1,
        failure: Failure = "error",
    ) -> Self:
        """Load and check a version with rows from a cube that has it; network and golden sample come from the store."""
        with opened_without_rows(store, number, done=done, cache=options.cache) as chain:
            rows = CubeRows(
                cube,
                number,
                tables=chain.manifest.tables,
                failure=failure,
                counts=options.counts,
                model=options.model,
                cache=options.caches.rows,
            )
            version = cls(chain, rows, digest=done.entries[number].sha256, options=options, layout=layout)
            version.check(chain.sample())
        return version

    def predict(self, batch: Batch, *, requests: int = 1) -> NDArray[np.float32]:
        """Probabilities [rows, labels]. `requests`: how many share the batch."""
        inputs = self._input_builder.build(batch, self._source, threads=self._threads)
        start = perf_counter()
        probabilities = self._network.run_checked(inputs.feeds)
        self._count(inputs, perf_counter() - start, requests)
        return probabilities

    def check(self, sample: Sample) -> float:
        """The largest difference from what the trainer predicted for the golden sample, computed as requests are.

        Raises VersionError if it is too large. Afterwards the network is warm, and so are the rows of the sample.
        """
        # Zeros in place of rows that cannot be read would make a good version look bad, or hide a bad one.
        source = self._source.strictly()
        seen = self._probabilities(sample.batch, source)
        if seen.shape != sample.probability.shape:
            raise VersionError(
                f"version {self.version}: predictions are {seen.shape}; {sample.probability.shape} was expected"
            )
        difference = np.abs(seen.astype(np.float64) - sample.probability)
        worst = float(difference.max()) if np.isfinite(difference).all() else float("inf")
        # Rows of fewer bits differ by what the publisher has measured and accepted, and no more.
        published = self.manifest.parity.get("max_difference", 0.0)
        allowed = sample.tolerance
        if self.manifest.dtype != "fp32" and isinstance(published, int | float):
            allowed += float(published)
        if not worst <= allowed:  # so that a NaN in the manifest allows nothing
            raise VersionError(
                f"version {self.version}: predictions of its golden sample differ by up to {worst:.3g} from the "
                f"trainer's; {allowed:.3g} is allowed"
            )
        for rows in _WARM:
            if rows < len(sample.batch):
                self._probabilities(sample.batch.part(0, rows), source)
        return worst

    def _probabilities(self, batch: Batch, source: RowSource) -> NDArray[np.float32]:
        return self._network.run_checked(self._input_builder.build(batch, source, threads=self._threads).feeds)

    def _count(self, inputs: NetworkInputs, seconds: float, requests: int) -> None:
        counts = self._counts
        counts.observe("clickline_seconds", inputs.seconds, self._rows_series)
        counts.observe("clickline_seconds", seconds, self._network_series)
        counts.count("clickline_keys_total", inputs.keys)
        if inputs.missing:
            counts.count("clickline_missing_keys_total", inputs.missing)
        self._row_reads.add(requests, inputs.keys, inputs.seconds)
