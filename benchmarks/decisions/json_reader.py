"""Decision 17: our JSON reader and others. `make decision-json_reader` runs it.

A request of 16 rows of 39 columns. Ours goes from bytes to hashed keys and normalised numbers; the others stop at
values, and everything that ours does besides would still have to be done.

    ours              bytes → keys and numbers, with every check of a request
    simdjson          pysimdjson: parsed, and every row made a Python dict
    simdjson, parsed  pysimdjson: only parsed, as a C++ program would begin
    orjson, msgspec, json    Python objects
    msgspec, typed    the same into structs with declared columns
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import msgspec
import numpy as np

import serve_parts as parts
from clickline.data.schema import Schema
from clickline.serve.predictor.feature_reader import FeatureReader
from datasets import synthetic
from decision_table import DecisionTable, Options, options
from libraries import use_libraries
from training import job_for

COLUMNS = ("µs a request", "MB/s")
CALLS = 200
"""Calls between two looks at the clock, so that looking costs nothing."""


def per_call(read: Callable[[bytes], Any], body: bytes, seconds: float) -> dict[str, float]:
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(CALLS):
            read(body)
        times.append((time.perf_counter() - start) / CALLS)
    median = float(np.median(times))
    return {"µs a request": median * 1e6, "MB/s": len(body) / median / 1e6}


def touched(parser: Any, body: bytes) -> int:
    """simdjson is lazy: a value is converted when it is asked for."""
    return sum(len(row.as_dict()) for row in parser.parse(body)["instances"])


def parsed(parser: Any, body: bytes) -> None:
    parser.parse(body)


def typed_decoder(columns: list[str]) -> Callable[[bytes], Any]:
    row = msgspec.defstruct("Row", [(name, int | str | None, None) for name in columns])
    request = msgspec.defstruct("Request", [("instances", list[row])])  # type: ignore[valid-type]
    return msgspec.json.Decoder(request).decode


def contenders(body: bytes, reader: FeatureReader) -> Mapping[str, Callable[[bytes], Any]]:
    use_libraries()
    orjson, simdjson = import_module("orjson"), import_module("simdjson")

    columns = list(json.loads(body)["instances"][0])
    return {
        "ours": partial(reader.from_json, most_rows=4096),
        "simdjson": partial(touched, simdjson.Parser()),
        "simdjson, parsed": partial(parsed, simdjson.Parser()),
        "orjson": orjson.loads,
        "msgspec": msgspec.json.decode,
        "msgspec, typed": typed_decoder(columns),
        "json": json.loads,
    }


def run(given: Options) -> None:
    rows = synthetic(20_000)
    body = parts.own_json(parts.raw_rows(rows)).body
    job = job_for(rows.train)
    schema = Schema.of(job.data, job.features)
    table = DecisionTable("0017-our-own-json-reader.md", COLUMNS)
    readers = contenders(body, FeatureReader(schema))
    table.alternate(
        {name: partial(per_call, read, body, given.seconds) for name, read in readers.items()}, rounds=given.rounds
    )
    table.finish(write=given.write)


if __name__ == "__main__":
    run(options(__doc__, seconds=1.0))
