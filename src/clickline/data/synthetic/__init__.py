"""Logs from known models, for trying things out, for tests and for benchmarks.

Since the model is known, so is the best AUC that any model can reach on the rows that were written: how far training is
from it says more than the AUC itself. The same seed gives the same bytes. A new kind of log needs what `log_writer.Log`
lists; the verbs that write them are in clickline.cli.verbs.data.data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import numpy as np

from clickline.data.synthetic.criteo_log import CriteoLog, CriteoRows
from clickline.data.synthetic.log_description import WrittenLog
from clickline.data.synthetic.log_writer import WriteOptions, write
from clickline.data.synthetic.movielens_log import MovieLensLog
from clickline.data.synthetic.random_streams import BLOCK
from clickline.data.synthetic.slot_log import SlotLog

__all__ = ["CriteoRows", "criteo_rows", "write_criteo", "write_movielens", "write_slots"]

IDS = 5_500_000


def write_criteo(path: Path, *, rows: int, seed: int, ids: int = IDS, **options: Unpack[WriteOptions]) -> WrittenLog:
    """A log in the raw Criteo format with about `ids` distinct values; see `log_writer` for options and files."""
    return write(CriteoLog(rows=rows, seed=seed, ids=ids), path, **options)


def write_movielens(path: Path, *, rows: int, seed: int, **options: Unpack[WriteOptions]) -> WrittenLog:
    """A CSV log in the shape of MovieLens, with a second label and histories."""
    return write(MovieLensLog(rows=rows, seed=seed), path, **options)


def write_slots(path: Path, *, rows: int, seed: int, **options: Unpack[WriteOptions]) -> WrittenLog:
    """A log of slot text, as PaddleRec reads it, with slots of several values and two dense features."""
    return write(SlotLog(rows=rows, seed=seed), path, **options)


def criteo_rows(rows: int, seed: int, *, ids: int = IDS) -> CriteoRows:
    """The rows that `write_criteo` would write, in memory, with their true probabilities."""
    log = CriteoLog(rows=rows, seed=seed, ids=ids)
    blocks = [log.block(number) for number in range(-(-rows // BLOCK))]
    return CriteoRows(
        *(np.concatenate([getattr(block, name) for block in blocks], axis=-1) for name in CriteoRows.__slots__)
    )
