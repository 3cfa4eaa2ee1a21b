"""A Parquet file with the prediction of every row of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from clickline.config.training import Loss, predicted_name
from clickline.errors import DataError
from clickline.train.evaluation.metrics import predictions_of


def write_predictions(
    path: Path,
    columns: Mapping[str, NDArray[Any]],
    *,
    labels: Sequence[str],
    groups: Sequence[str] | None,
    loss: Loss = "log",
) -> None:
    """Write row, label and probability of all labels, weight and group if there are any; all or nothing.

    With a squared loss, what is predicted is called `value`. `row` counts from 1 over the rows that could be read. The
    first label's columns have plain names, the others' have the label in front.
    """
    logits, wanted = columns["logits"], columns["labels"]
    named = predicted_name(loss)
    table: dict[str, Any] = {"row": np.arange(1, len(logits) + 1, dtype=np.int64)}
    for place, name in enumerate(labels[: logits.shape[1]]):
        prefix = f"{name}." if place else ""
        table[f"{prefix}label"] = wanted[:, place]
        table[f"{prefix}{named}"] = predictions_of(logits[:, place], loss=loss)
    if "weights" in columns:
        table["weight"] = columns["weights"]
    if groups is not None:
        table["group"] = pa.array(groups, pa.large_string())
    aside = path.with_name(f".{path.name}.writing")
    try:
        pq.write_table(pa.table(table), aside)
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise DataError(f"{path}: predictions cannot be written: {error}; name another file with --out") from error
