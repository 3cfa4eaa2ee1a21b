"""Section parse: raw Criteo text to hashed keys and numbers on one core, beside readers that stop at columns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.schema import Schema
from datasets import Rows
from peers import run_peer
from rounds import Report, alternate

PEERS = ("polars", "pyarrow", "pandas")


def run(report: Report, rows: Rows, *, rounds: int) -> None:
    core = min(os.sched_getaffinity(0))
    contenders: dict[str, Callable[[], float]] = {
        "parse": lambda: ours(rows.train, core=core, integers="dense"),
        "parse, integers also as slots": lambda: ours(rows.train, core=core, integers="both"),
        **{f"{tool}, columns only": _peer(tool, rows.train, core) for tool in PEERS},
    }
    report.figures |= alternate(contenders, rounds=rounds, unit="rows/s")
    best = max(report.median(f"{tool}, columns only") for tool in PEERS)
    report.ratio("parse/best peer", report.median("parse") / best, wanted=2.0)


def ours(path: Path, *, core: int, integers: Literal["dense", "both"]) -> float:
    """Rows per second of the native parser, the better of two passes, as for the peers."""
    data = Data()
    parser = Schema.of(data, Features(integers=integers)).parser(columns=[])
    figures = []
    with _pinned(core):
        for _ in range(2):
            started = time.perf_counter()
            rows = sum(parser.parse(block).n for block in _blocks(path, data.block_bytes))
            figures.append(rows / (time.perf_counter() - started))
    return max(figures)


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    """Whole lines, about `size` bytes at a time."""
    rest = b""
    with path.open("rb", buffering=0) as file:
        while read := file.read(size):
            block = rest + read
            cut = block.rfind(b"\n") + 1
            rest = block[cut:]
            yield block[:cut]
    if rest:
        yield rest


@contextmanager
def _pinned(core: int) -> Iterator[None]:
    """This thread on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _peer(tool: str, path: Path, core: int) -> Callable[[], float]:
    def figure() -> float:
        facts = run_peer("columns", tool, path, core, threads=1)
        return float(facts["rows"] / facts["seconds"])

    return figure
