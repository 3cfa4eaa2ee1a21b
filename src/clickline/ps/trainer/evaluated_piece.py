"""A trainer's part of an evaluation: predictions for one piece of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from clickline.data.leasing.pieces import Piece, piece_batches
from clickline.ps.protocol.framing import Arrays
from clickline.ps.trainer.model_replica import ModelReplica
from clickline.train.evaluation.evaluation import EVALUATION_BATCH


def predict_piece(replica: ModelReplica, piece: Piece, *, paths: list[str]) -> Arrays:
    """Logits and labels of all rows of a piece, and weights and groups where the data has them."""
    job, schema = replica.job, replica.schema
    batches = piece_batches(
        job.data,
        schema,
        piece,
        paths=paths,
        epoch=0,
        seed=job.seed,
        batch_size=EVALUATION_BATCH,
        shuffle=False,
    )
    columns: dict[str, list[Any]] = {"logits": [], "labels": [], "weights": [], "groups": []}
    for batch, _ in batches:
        columns["logits"].append(replica.predict(batch))
        columns["labels"].append(batch.labels)
        columns["weights"] += [] if batch.weights is None else [batch.weights]
        columns["groups"] += [] if batch.groups is None else [batch.groups]
    arrays = {name: np.concatenate(parts) for name, parts in columns.items() if parts}
    # A piece may have no rows; the coordinator takes the labels for the sign that it was predicted.
    width = len(schema.labels)
    arrays.setdefault("labels", np.zeros((0, width), np.float32))
    arrays.setdefault("logits", np.zeros((0, width), np.float32))
    return arrays
