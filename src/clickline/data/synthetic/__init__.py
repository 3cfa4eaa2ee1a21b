"""TEMPORARY"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from clickline.data.synthetic.criteo import BLOCK, CriteoLog


def write_criteo(
    path: Path, *, rows: int, seed: int, ids: int = 5_500_000, test_rows: int = 0, force: bool = False
) -> None:
    log = CriteoLog(rows=rows, seed=seed, ids=ids)
    cut = rows - test_rows
    P, Y = [], []
    with path.with_suffix(".train.tsv").open("wb") as a, path.with_suffix(".test.tsv").open("wb") as b:
        for number in range(-(-rows // BLOCK)):
            block = log.block(number)
            data, ends = log.text(block)
            first = number * BLOCK
            k = min(max(cut - first, 0), len(ends))
            e = int(ends[k - 1]) if k else 0
            a.write(data[:e])
            b.write(data[e:])
            P.append(block.probability)
            Y.append(block.labels)
    p, y = np.concatenate(P)[cut:], np.concatenate(Y)[cut:]
    from clickline.train.metrics import auc

    path.with_suffix(".json").write_text(json.dumps({"best_auc": auc(p, y.astype(float))}))
