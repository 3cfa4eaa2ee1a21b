"""Logs from known models, for trying things out, for tests and for benchmarks.

Since the model is known, so is the best AUC that any model can reach on the rows that were written: how far training is
from it says more than the AUC itself. The same seed gives the same bytes. A new kind of log needs what `writing.Log`
lists; the verbs that write them are in clickline.cli.verbs.data.data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from clickline.data.synthetic.criteo_log import CriteoLog, CriteoRows
from clickline.data.synthetic.log_description import WrittenLog
from clickline.data.synthetic.log_writer import Compression, write
from clickline.data.synthetic.movielens_log import MovieLensLog
from clickline.data.synthetic.random_streams import BLOCK
from clickline.data.synthetic.slot_log import SlotLog

__all__ = ["CriteoRows", "criteo_rows", "write_criteo", "write_movielens", "write_slots"]

IDS = 5_500_000


def write_criteo(
    path: Path,
    *,
    rows: int,
    seed: int,
    ids: int = IDS,
    test_rows: int = 0,
    files: int = 1,
    compress: Compression = "none",
    force: bool = False,
    progress: Callable[[int], None] | None = None,
) -> WrittenLog:
    """A log in the raw Criteo format with about `ids` distinct values; see `writing` for the files it makes."""
    log = CriteoLog(rows=rows, seed=seed, ids=ids)
    return write(log, path, test_rows=test_rows, files=files, compress=compress, force=force, progress=progress)


def write_movielens(
    path: Path,
    *,
    rows: int,
    seed: int,
    test_rows: int = 0,
    files: int = 1,
    compress: Compression = "none",
    force: bool = False,
    progress: Callable[[int], None] | None = None,
) -> WrittenLog:
    """A CSV log in the shape of MovieLens, with a second label and histories."""
    log = MovieLensLog(rows=rows, seed=seed)
    return write(log, path, test_rows=test_rows, files=files, compress=compress, force=force, progress=progress)


def write_slots(
    path: Path,
    *,
    rows: int,
    seed: int,
    test_rows: int = 0,
    files: int = 1,
    compress: Compression = "none",
    force: bool = False,
    progress: Callable[[int], None] | None = None,
) -> WrittenLog:
    """A log of slot text, as PaddleRec reads it, with slots of several values and two dense features."""
    log = SlotLog(rows=rows, seed=seed)
    return write(log, path, test_rows=test_rows, files=files, compress=compress, force=force, progress=progress)


def criteo_rows(rows: int, seed: int, *, ids: int = IDS) -> CriteoRows:
    """The rows that `write_criteo` would write, in memory, with their true probabilities."""
    log = CriteoLog(rows=rows, seed=seed, ids=ids)
    blocks = [log.block(number) for number in range(-(-rows // BLOCK))]
    return CriteoRows(
        *(np.concatenate([getattr(block, name) for block in blocks], axis=-1) for name in CriteoRows.__slots__)
    )
