"""The three kinds of synthetic logs, under one face."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clickline.data.synthetic import write_criteo, write_movielens, write_slots
from clickline.data.synthetic.criteo_log import CriteoLog
from clickline.data.synthetic.log_writer import Log
from clickline.data.synthetic.movielens_log import MovieLensLog
from clickline.data.synthetic.slot_log import SlotLog


@dataclass(frozen=True)
class Kind:
    name: str
    suffix: str
    write: Callable[..., dict[str, Any]]
    make: Callable[..., Log]
    options: dict[str, Any]
    """What makes it small."""

    def log(self, *, rows: int, seed: int) -> Log:
        return self.make(rows=rows, seed=seed, **self.options)


KINDS = [
    Kind("criteo", ".tsv", write_criteo, CriteoLog, {"ids": 30_000}),
    Kind("movielens", ".csv", write_movielens, MovieLensLog, {}),
    Kind("slots", ".txt", write_slots, SlotLog, {}),
]
