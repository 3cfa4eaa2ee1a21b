"""The rows that benchmarks use: synthetic ones, made here, and real ones, if you have them.

Everything is written below .bench/data, once. The real rows are a sample of Criteo's Kaggle set, whose terms forbid
handing it on: --criteo or CLICKLINE_CRITEO say where yours is (.tsv, or .tsv.zst). Its first 80 % in time train, the
rest tests.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from clickline.data.synthetic import write_criteo
from peers import BENCH
from rounds import console

DATA = BENCH / "data"
IDS = 5_500_000
VARIABLE = "CLICKLINE_CRITEO"
ABSENT = f"no real Criteo rows: say where they are by --criteo PATH or {VARIABLE}=PATH (.tsv or .tsv.zst)"


@dataclass(frozen=True)
class Rows:
    """Raw Criteo text, to train on and to test with."""

    train: Path
    test: Path
    train_rows: int
    best_auc: float | None = None
    """What the true probabilities score on the test rows; known for synthetic rows."""


def synthetic(rows: int) -> Rows:
    """`rows` rows to train on, a quarter as many to test with, about 5.5 million ids in all."""
    stem = DATA / f"synthetic-{rows}.tsv"
    facts = stem.with_suffix(".json")
    if not facts.exists():
        console.print(f"making {rows:,} synthetic rows in {DATA}", highlight=False)
        DATA.mkdir(parents=True, exist_ok=True)
        write_criteo(stem, rows=rows + rows // 4, seed=1, ids=IDS, test_rows=rows // 4, force=True)
    truth = json.loads(facts.read_text(encoding="utf-8"))
    return Rows(stem.with_suffix(".train.tsv"), stem.with_suffix(".test.tsv"), rows, truth["test"]["best_auc"])


def criteo_path(given: str | None) -> Path | None:
    """Where the real rows are; None if nobody said."""
    named = given or os.environ.get(VARIABLE)
    if not named:
        return None
    if not Path(named).is_file():
        raise SystemExit(f"{named}: no such file; --criteo and {VARIABLE} name the Criteo sample (.tsv or .tsv.zst)")
    return Path(named)


def real(path: Path) -> Rows:
    """The Criteo sample, cut in two by time. Files are named by content: another sample has others."""
    with pa.input_stream(str(path), compression="zstd" if path.suffix == ".zst" else None) as stream:
        lines = io.BytesIO(stream.read()).readlines()
    cut = len(lines) * 8 // 10
    parts = {"train": b"".join(lines[:cut]), "test": b"".join(lines[cut:])}
    digest = hashlib.sha256(parts["train"] + parts["test"]).hexdigest()[:12]
    DATA.mkdir(parents=True, exist_ok=True)
    written = {}
    for name, text in parts.items():
        written[name] = DATA / f"criteo-{digest}.{name}.tsv"
        if not written[name].exists():
            aside = written[name].with_suffix(f".{os.getpid()}")
            aside.write_bytes(text)
            aside.replace(written[name])
    return Rows(written["train"], written["test"], cut)
