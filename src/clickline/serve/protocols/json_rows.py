"""Predictions as people read them: `{"predictions":[0.031],"version":12,"model":"ctr","missing":0}`.

Requests of this form are read by FeatureReader.from_json.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from clickline._native import json_floats
from clickline.serve.prediction import PredictionResult


def encode(answer: PredictionResult, *, missing: int = 0) -> bytes:
    """One probability for each instance; one for each label, by its name, where the model has several."""
    body: dict[str, Any] = {"predictions": _predictions(answer), "version": answer.version, "model": answer.model}
    if answer.tag:
        body["variant"] = answer.tag
    body["missing"] = missing
    return msgspec.json.encode(body)


def _predictions(answer: PredictionResult) -> Any:
    if len(answer.labels) == 1:
        return msgspec.Raw(json_floats(np.ascontiguousarray(answer.probability)))
    return [dict(zip(answer.labels, row, strict=True)) for row in answer.probability.tolist()]
