"""Embedded databases, asked in-process for batches of keys: LMDB (memory-mapped) and RocksDB (through rocksdict).

databases.py lmdb|rocksdb DIRECTORY KEYS VALUE_BYTES BATCH SECONDS    prints keys per second
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path


def name(number: int) -> bytes:
    return number.to_bytes(8, "big")


def value(number: int, size: int) -> bytes:
    return number.to_bytes(8, "little") * (size // 8)


def with_lmdb(directory: str, keys: int, size: int) -> Callable[[list[int]], list[bytes]]:
    import lmdb

    there = Path(directory).exists()
    database = lmdb.open(directory, map_size=1 << 32, readonly=False, lock=False, sync=False, readahead=False)
    if not there:
        with database.begin(write=True) as transaction:
            for number in range(keys):
                transaction.put(name(number), value(number, size), append=True)
    reading = database.begin(buffers=True)
    cursor = reading.cursor()
    return lambda numbers: [got[1] for got in cursor.getmulti([name(number) for number in numbers])]


def with_rocksdb(directory: str, keys: int, size: int) -> Callable[[list[int]], list[bytes]]:
    from rocksdict import Options, Rdict, WriteBatch

    there = Path(directory).exists()
    database = Rdict(directory, Options(raw_mode=True))
    if not there:
        for first in range(0, keys, 10_000):
            batch = WriteBatch(raw_mode=True)
            for number in range(first, min(first + 10_000, keys)):
                batch.put(name(number), value(number, size))
            database.write(batch)
        database.flush()
    return lambda numbers: database[[name(number) for number in numbers]]


def main() -> None:
    kind, directory, *rest = sys.argv[1:]
    keys, size, batch, seconds = int(rest[0]), int(rest[1]), int(rest[2]), float(rest[3])
    ask = {"lmdb": with_lmdb, "rocksdb": with_rocksdb}[kind](directory, keys, size)
    draw = random.Random(1)
    batches = [[draw.randrange(keys) for _ in range(batch)] for _ in range(max(50, 200_000 // batch))]
    first = ask(batches[0])
    if bytes(first[0]) != value(batches[0][0], size) and kind == "rocksdb":
        sys.exit(f"{kind} gave another value than was put")
    began, number = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        if len(ask(batches[number % len(batches)])) == 0:
            sys.exit(f"{kind} found nothing")
        number += 1
    print(json.dumps({"keys_per_second": number * batch / (time.perf_counter() - began)}))


if __name__ == "__main__":
    main()
