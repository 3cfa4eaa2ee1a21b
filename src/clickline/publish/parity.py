"""Whether a version predicts what the trainer predicts: its network, fed with rows read from its files.

Rows of 32 bits must give the trainer's probabilities to within TOLERANCE. Shorter rows cannot; for them the AUC before
and after is compared, over more rows than the golden sample has, and a drop that is too large is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.dataset import Dataset
from clickline.data.schema import Schema
from clickline.errors import VersionError
from clickline.train.evaluation.evaluation import Predictions
from clickline.train.evaluation.metrics import auc, sigmoid
from clickline.train.learner import Learner
from clickline.train.sparse import SparseSide
from clickline.versions.chain import LayeredRows, opened
from clickline.versions.golden_sample import Sample
from clickline.versions.network import Network, embeddings_of
from clickline.versions.store import Store

TOLERANCE = 1e-5
AUC_ROWS = 100_000
"""Rows on which shorter rows are measured, if the data has as many."""
_BATCH = 4096
Progress = Callable[[float | None, dict[str, Any]], None]


class Published:
    """Predicts from a version's files alone: the sparse side pulls from dictionaries, ONNX does the rest."""

    def __init__(
        self,
        *,
        inputs: Mapping[str, Mapping[str, Any]],
        schema: Schema,
        rows: Mapping[str, LayeredRows],
        network: bytes,
        threads: int = 1,
    ) -> None:
        embeddings = embeddings_of(inputs, schema)
        for one in embeddings.values():
            if one.table not in rows or rows[one.table].dim != one.dim:
                raise VersionError(f"inputs.{one.name}: no table {one.table!r} with rows of dim {one.dim}")
        # A job says how tables are made; these are made already.
        self._sparse = SparseSide(embeddings=embeddings, schema=schema, job=Job(), threads=threads, elsewhere=rows)
        self._network = Network(network, threads=threads)

    def predict(self, batch: Batch) -> NDArray[np.float32]:
        """Probabilities [rows, labels]."""
        pulled = self._sparse.pull(self._sparse.plan(batch), rows=len(batch), training=False)
        feeds = {name: tensor.numpy() for name, tensor in self._sparse.inputs(batch, pulled).items()}
        # A batch has a dense part always, if one of width 0; a network without dense numbers has no such input.
        return self._network.run({name: feed for name, feed in feeds.items() if name != "dense" or feed.shape[1]})


@dataclass(frozen=True)
class Parity:
    """What the comparison came to."""

    rows: int
    max_difference: float
    auc: float | None
    """Of the trainer, over `auc_rows` rows; None if they are all of one class."""
    published_auc: float | None
    auc_rows: int

    @property
    def drop(self) -> float:
        return 0.0 if self.auc is None or self.published_auc is None else self.auc - self.published_auc

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "max_difference": self.max_difference,
            "tolerance": TOLERANCE,
            "auc": self.auc,
            "published_auc": self.published_auc,
            "auc_rows": self.auc_rows,
        }


def probabilities(learner: Learner, batch: Batch) -> NDArray[np.float32]:
    """What the trainer predicts."""
    return sigmoid(learner.predict(batch)).astype(np.float32)


def compare(sample: Sample, published: Published) -> Parity:
    """The golden sample, through the published files."""
    seen = published.predict(sample.batch)
    # NaN compares as false with everything, so that it would pass as no difference.
    difference = np.abs(seen.astype(np.float64) - sample.probability)
    worst = float(difference.max()) if np.isfinite(difference).all() else float("inf")
    labels = sample.batch.labels[:, 0]
    return Parity(
        rows=len(sample.batch),
        max_difference=worst,
        auc=auc(sample.probability[:, 0], labels),
        published_auc=auc(seen[:, 0], labels) if worst < float("inf") else None,
        auc_rows=len(sample.batch),
    )


def measure(
    learner: Learner, published: Published, *, job: Job, paths: list[str], progress: Progress
) -> tuple[float | None, float | None, int]:
    """AUC of the trainer and of the published files over many rows, and how many they were."""
    dataset = Dataset(
        data=job.data, schema=learner.schema, paths=paths, batch_size=_BATCH, seed=job.seed, shuffle=False
    )
    before, after = Predictions(), Predictions()
    rows = 0
    with closing(dataset.batches(epoch=0)) as batches:
        for batch, _ in batches:
            before.add(batch, learner.predict(batch))
            after.add(batch, published.predict(batch))
            rows += len(batch)
            progress(min(rows / AUC_ROWS, 1.0), {"rows": f"{rows:,}"})
            if rows >= AUC_ROWS:
                break
    # The trainer gives logits and the network probabilities: the AUC depends on the order alone, so they compare.
    labels = np.concatenate(before.labels)[:, 0]
    trained, served = np.concatenate(before.logits)[:, 0], np.concatenate(after.logits)[:, 0]
    return auc(trained, labels), auc(served, labels), rows


def judge(parity: Parity, *, dtype: str, max_auc_drop: float) -> None:
    """Refuse what does not predict as the trainer does."""
    if not np.isfinite(parity.max_difference):
        raise VersionError("not published: the network gives numbers that are not finite on the golden sample")
    if dtype == "fp32" and parity.max_difference > TOLERANCE:
        raise VersionError(
            f"not published: predictions from the published files differ from the trainer's by up to "
            f"{parity.max_difference:.3g} on {parity.rows} rows; {TOLERANCE:g} is allowed"
        )
    if dtype != "fp32" and parity.drop > max_auc_drop:  # a few rows may change places within the tolerance
        raise VersionError(
            f"not published: with {dtype} rows the AUC falls from {parity.auc:.6f} to {parity.published_auc:.6f} on "
            f"{parity.auc_rows:,} rows; a drop of {max_auc_drop:g} is allowed (--max-auc-drop), or use fp32"
        )


def check_again(store: Store, version: int) -> float:
    """Predict a version's golden sample from its files, without its model's code.

    Returns the largest difference from what the trainer predicted.
    """
    with opened(store, version) as chain:
        manifest = chain.manifest
        published = Published(inputs=manifest.inputs, schema=chain.schema, rows=chain.rows(), network=chain.network())
        worst = compare(chain.sample(), published).max_difference
    # Shorter rows may have differed by more than TOLERANCE when they were published; the limit is relative to that.
    allowed = max(TOLERANCE, float(manifest.parity.get("max_difference", 0.0)) + TOLERANCE)
    if not worst <= allowed:
        raise VersionError(
            f"{store.url}: version {version} predicts its sample with differences of up to {worst:.3g}; when it was "
            f"published they were at most {allowed:.3g}"
        )
    return worst
