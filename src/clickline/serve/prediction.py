"""What a predictor computes with: the rows of one request, and what one version predicts for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clickline.data.batch import Batch


@dataclass(frozen=True, slots=True)
class PredictionInput:
    """Rows to predict for."""

    batch: Batch
    missing: int
    """Values of columns that had to be filled in, whatever number of features are read from each."""


@dataclass(frozen=True, slots=True)
class PredictionResult:
    """What one version predicts for the rows of one request."""

    probability: NDArray[np.float32]
    """[rows, labels]"""
    version: int
    model: str
    tag: str
    """Tag of the variant that was drawn; empty if nothing was split."""
    labels: tuple[str, ...]
