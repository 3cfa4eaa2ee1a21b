"""Whether a version predicts what the trainer predicts: its network, fed with rows read from its files.

Rows of 32 bits must give the trainer's predictions to within the sample's tolerance. Shorter rows cannot; for them the
AUC (with a squared loss, the RMSE) before and after is compared, over more rows than the golden sample has, and a drop
(or rise) that is too large is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline.config import Job
from clickline.config.training import Loss
from clickline.data.batch import Batch
from clickline.data.dataset import Dataset
from clickline.data.schema import Schema
from clickline.errors import VersionError
from clickline.train.evaluation.evaluation import Predictions
from clickline.train.evaluation.metrics import Floats, auc, predictions_of
from clickline.train.evaluation.value_metrics import measure_values
from clickline.train.learner import Learner
from clickline.train.sparse import SparseSide
from clickline.versions.chain import LayeredRows, opened
from clickline.versions.golden_sample import TOLERANCE, Sample
from clickline.versions.network import Network, embeddings_of
from clickline.versions.store import Store

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
    tolerance: float = TOLERANCE
    rmse: float | None = None
    """Of the trainer, over `auc_rows` rows, if the loss is squared; there is no AUC then."""
    published_rmse: float | None = None

    @property
    def drop(self) -> float:
        return 0.0 if self.auc is None or self.published_auc is None else self.auc - self.published_auc

    @property
    def rise(self) -> float:
        """What the RMSE rises by, as a share of it."""
        return self.published_rmse / self.rmse - 1 if self.rmse and self.published_rmse is not None else 0.0

    def to_dict(self) -> dict[str, Any]:
        common = {
            "rows": self.rows,
            "max_difference": self.max_difference,
            "tolerance": self.tolerance,
            "auc": self.auc,
            "published_auc": self.published_auc,
            "auc_rows": self.auc_rows,
        }
        return common if self.rmse is None else common | {"rmse": self.rmse, "published_rmse": self.published_rmse}


def probabilities(learner: Learner, batch: Batch) -> NDArray[np.float32]:
    """What the trainer predicts: probabilities, or values with a squared loss."""
    return predictions_of(learner.predict(batch), loss=learner.schema.loss).astype(np.float32)


def compare(sample: Sample, published: Published, *, loss: Loss = "log") -> Parity:
    """The golden sample, through the published files."""
    seen = published.predict(sample.batch)
    # NaN compares as false with everything, so that it would pass as no difference.
    difference = np.abs(seen.astype(np.float64) - sample.probability)
    worst = float(difference.max()) if np.isfinite(difference).all() else float("inf")
    labels, rows = sample.batch.labels[:, 0], len(sample.batch)
    parity = Parity(rows, worst, auc=None, published_auc=None, auc_rows=rows, tolerance=sample.tolerance)
    after = seen[:, 0] if worst < float("inf") else None
    return _with_figures(parity, sample.probability[:, 0], after, labels, loss=loss)


def _with_figures(parity: Parity, before: Floats, after: Floats | None, labels: Floats, *, loss: Loss) -> Parity:
    """With the AUC, or RMSE, before and after. The AUC depends on the order alone, so logits will do for it."""
    if loss == "squared":
        then = None if after is None else measure_values(after, labels).rmse
        return replace(parity, rmse=measure_values(before, labels).rmse, published_rmse=then, auc_rows=len(labels))
    area = None if after is None else auc(after, labels)
    return replace(parity, auc=auc(before, labels), published_auc=area, auc_rows=len(labels))


def measure(
    parity: Parity, learner: Learner, published: Published, *, job: Job, paths: list[str], progress: Progress
) -> Parity:
    """`parity` with the AUC, or RMSE, of the trainer and of the published files over many rows."""
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
    labels = np.concatenate(before.labels)[:, 0]
    trained, served = np.concatenate(before.logits)[:, 0], np.concatenate(after.logits)[:, 0]
    return _with_figures(parity, trained, served, labels, loss=learner.schema.loss)


def judge(parity: Parity, *, dtype: str, max_auc_drop: float, max_rmse_rise: float = 0.001) -> None:
    """Refuse what does not predict as the trainer does."""
    if not np.isfinite(parity.max_difference):
        raise VersionError("not published: the network gives numbers that are not finite on the golden sample")
    if dtype == "fp32" and parity.max_difference > parity.tolerance:
        raise VersionError(
            f"not published: predictions from the published files differ from the trainer's by up to "
            f"{parity.max_difference:.3g} on {parity.rows} rows; {parity.tolerance:g} is allowed"
        )
    if dtype != "fp32" and parity.drop > max_auc_drop:  # a few rows may change places within the tolerance
        raise VersionError(
            f"not published: with {dtype} rows the AUC falls from {parity.auc:.6f} to {parity.published_auc:.6f} on "
            f"{parity.auc_rows:,} rows; a drop of {max_auc_drop:g} is allowed (--max-auc-drop), or use fp32"
        )
    if dtype != "fp32" and parity.rise > max_rmse_rise:
        raise VersionError(
            f"not published: with {dtype} rows the RMSE rises from {parity.rmse:.6f} to {parity.published_rmse:.6f} on "
            f"{parity.auc_rows:,} rows; a rise by {max_rmse_rise:g} of it is allowed (--max-rmse-rise), or use fp32"
        )


def check_again(store: Store, version: int) -> float:
    """Predict a version's golden sample from its files, without its model's code.

    Returns the largest difference from what the trainer predicted.
    """
    with opened(store, version) as chain:
        manifest = chain.manifest
        published = Published(inputs=manifest.inputs, schema=chain.schema, rows=chain.rows(), network=chain.network())
        compared = compare(chain.sample(), published)
    # Shorter rows may have differed by more than that when they were published; the limit is relative to that.
    worst, tolerance = compared.max_difference, compared.tolerance
    allowed = max(tolerance, float(manifest.parity.get("max_difference", 0.0)) + tolerance)
    if not worst <= allowed:
        raise VersionError(
            f"{store.url}: version {version} predicts its sample with differences of up to {worst:.3g}; when it was "
            f"published they were at most {allowed:.3g}"
        )
    return worst
