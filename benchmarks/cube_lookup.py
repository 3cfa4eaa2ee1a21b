"""Sections lookup and size: the dictionary in-process, beside embedded databases and numpy, and as it grows.

    cube_lookup.py grown FILE COUNT     open time, lookup rate and bytes per key, in a process of its own

Rows of 64 bytes for the comparison; of dimension 8 in half precision for growth.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clickline import _native
from cube_network import KEYS, VALUE, keys_of, write
from peers import run_own, run_peer, scratch
from rounds import Report, alternate, console

SECONDS, BATCH, GROWN = 1.5, 100, 16
SIZES = (10**5, 10**6, 10**7, 10**8)


def run(report: Report, *, rounds: int) -> None:
    with scratch() as directory:
        write(directory / "rows.dict")
        ours = _native.Dictionary(str(directory / "rows.dict"), memory=True)
        database = partial(_database, directory)
        contenders: dict[str, Callable[[], float]] = {
            f"dictionary, batch {BATCH}": partial(_rate, ours.lookup, BATCH),
            f"numpy searchsorted, batch {BATCH}": partial(_rate, _searchsorted(), BATCH),
            f"LMDB, batch {BATCH}": partial(database, "lmdb"),
            f"RocksDB, batch {BATCH}": partial(database, "rocksdb"),
        }
        report.figures |= alternate(contenders, rounds=rounds, unit="keys/s")
        bytes_per_key = ours.resident_bytes / KEYS
    mine = report.median(f"dictionary, batch {BATCH}")
    best = max(report.median(f"{name}, batch {BATCH}") for name in ("LMDB", "RocksDB"))
    report.ratio("dictionary/best database", mine / best, wanted=10)
    report.ratio("dictionary/searchsorted", mine / report.median(f"numpy searchsorted, batch {BATCH}"), wanted=4)
    report.figure("dictionary, resident bytes per key", round(bytes_per_key, 2), unit="bytes")
    report.ratio("(8 + value)/resident bytes per key", (8 + VALUE) / bytes_per_key, wanted=0.8)


def size(report: Report) -> None:
    """Dictionaries of 10^5 to 10^8 keys, as far as memory and disk allow."""
    with scratch() as directory:
        for count in SIZES:
            need = count * (8 + GROWN) * 3
            free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            if need > free:
                console.print(f"  {count:,} keys left out: {need / 2**30:.1f} GiB needed, {free / 2**30:.1f} free")
                continue
            file = directory / f"{count}.dict"
            seconds = _grow(file, count)
            facts = run_own("cube_lookup", "grown", file, count)
            file.unlink()
            name = f"{count:.0e} keys".replace("e+0", "e")
            report.figure(f"{name}, written in", round(seconds, 2), unit="s")
            report.figure(f"{name}, open", round(facts["open_ms"], 3), unit="ms")
            report.figure(f"{name}, lookups", round(facts["keys_per_second"]), unit="keys/s")
            report.figure(f"{name}, bytes per key", round(facts["bytes_per_key"], 2), unit="bytes")
            console.print(f"  {count:,} keys: {facts}", highlight=False)


def _grow(file: Path, count: int) -> float:
    began = time.perf_counter()
    keys = keys_of(np.arange(count))
    values = np.zeros((count, GROWN), np.uint8)
    values[:, :8] = keys.view(np.uint8).reshape(count, 8)
    _native.write_dictionary(str(file), keys, values, dtype=2, dim=GROWN // 2, threads=2)
    return time.perf_counter() - began


def grown(file: str, count: str) -> None:
    opens = []
    for _ in range(5):
        began = time.perf_counter()
        _native.Dictionary(file)
        opens.append(time.perf_counter() - began)
    table = _native.Dictionary(file, memory=True)
    rate = _rate(table.lookup, 1000, keys=int(count))
    print(
        json.dumps(
            {
                "open_ms": float(np.median(opens)) * 1e3,
                "keys_per_second": rate,
                "bytes_per_key": table.resident_bytes / int(count),
            }
        )
    )


def _rate(ask: Callable[[Any], Any], batch: int, keys: int = KEYS) -> float:
    draw = np.random.default_rng(1)
    batches = [keys_of(draw.integers(0, keys, batch)) for _ in range(max(50, 1_000_000 // batch))]
    for one in batches[:50]:
        ask(one)
    began, number = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        ask(batches[number % len(batches)])
        number += 1
    return number * batch / (time.perf_counter() - began)


def _searchsorted() -> Callable[[Any], Any]:
    keys = keys_of(np.arange(KEYS))
    order = np.argsort(keys)
    ordered = keys[order]
    values = np.repeat(ordered[:, None], VALUE // 8, axis=1)

    def ask(wanted: Any) -> Any:
        places = np.minimum(np.searchsorted(ordered, wanted), KEYS - 1)
        return values[places], ordered[places] == wanted

    return ask


def _database(directory: Path, kind: str) -> float:
    return float(run_peer("databases", kind, directory / kind, KEYS, VALUE, BATCH, SECONDS)["keys_per_second"])


if __name__ == "__main__":
    grown(*sys.argv[2:])
