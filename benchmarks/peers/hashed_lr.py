"""Hashed logistic regression, as a careful practitioner would write it: 2^20 buckets, AdaGrad, two passes, tuned.

    hashed_lr.py TRAIN TEST          prints {"auc": …, "logloss": …}

Integers count twice: as buckets, and as standardised logarithms. Settings were chosen for the Criteo sample.
"""

from __future__ import annotations

import json
import math
import sys
from zlib import crc32

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

BUCKETS, RATE, START, PASSES, BATCH, COLUMNS = 1 << 20, 0.05, 1.0, 2, 32, 39


def read(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hashed columns [rows, 39], logarithms [rows, 13] with NaN where missing, labels [rows]."""
    hashed, numbers, labels = [], [], []
    with open(path, encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            cells = line[:-1].split("\t")
            labels.append(float(cells[0]))
            integers = [int(cell) if cell else None for cell in cells[1:14]]
            values = [str(int(math.log(v) ** 2)) if v is not None and v > 2 else str(v) for v in integers] + cells[14:]
            hashed.append([crc32(f"{place}:{value}".encode()) % BUCKETS for place, value in enumerate(values)])
            numbers.append([math.nan if v is None else math.copysign(math.log1p(abs(v)), v) for v in integers])
    return np.array(hashed), np.array(numbers, np.float32), np.array(labels, np.float32)


def main(train: str, test: str) -> None:
    x, dense, y = read(train)
    mean, spread = np.nanmean(dense, 0), np.nanstd(dense, 0)
    dense = np.nan_to_num((dense - mean) / spread)
    weights, squares = np.zeros(BUCKETS, np.float32), np.full(BUCKETS, START, np.float32)
    slopes, slope_squares = np.zeros(13, np.float32), np.full(13, START, np.float32)
    bias = math.log(y.mean() / (1 - y.mean()))
    for start in list(range(0, len(y), BATCH)) * PASSES:
        rows = slice(start, start + BATCH)
        error = 1 / (1 + np.exp(-weights[x[rows]].sum(1) - dense[rows] @ slopes - bias)) - y[rows]
        touched, inverse = np.unique(x[rows], return_inverse=True)
        gradient = np.bincount(inverse.ravel(), np.repeat(error, COLUMNS), minlength=len(touched)).astype(np.float32)
        squares[touched] += gradient**2
        weights[touched] -= RATE * gradient / np.sqrt(squares[touched])
        gradient = error @ dense[rows]
        slope_squares += gradient**2
        slopes -= RATE * gradient / np.sqrt(slope_squares)
        bias -= 0.001 * error.sum()
    x, dense, y = read(test)
    dense = np.nan_to_num((dense - mean) / spread)
    predicted = 1 / (1 + np.exp(-weights[x].sum(1) - dense @ slopes - bias))
    print(json.dumps({"auc": float(roc_auc_score(y, predicted)), "logloss": float(log_loss(y, predicted))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
