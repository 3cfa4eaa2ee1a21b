"""Raw Criteo text into columns, on one core: polars, pyarrow or pandas.

    columns.py TOOL FILE CORE        prints {"rows": …, "seconds": …}, the better of two reads

No hashing is asked of them: label and integers as numbers, categories as strings, types told beforehand.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

LABEL, INTEGERS = "label", [f"I{i}" for i in range(1, 14)]
CATEGORIES = [f"C{i}" for i in range(1, 27)]
NAMES = [LABEL, *INTEGERS, *CATEGORIES]


def with_polars(path: str) -> int:
    import polars

    types = {name: polars.String if name in CATEGORIES else polars.Int32 for name in NAMES}
    # a schema without inference, and no index of lines beforehand: its fastest way through a file
    return len(polars.read_csv(path, separator="\t", has_header=False, schema=types, quote_char=None))


def with_pyarrow(path: str) -> int:
    import pyarrow
    from pyarrow import csv

    types = {name: pyarrow.string() if name in CATEGORIES else pyarrow.int32() for name in NAMES}
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=NAMES, use_threads=False),
        parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=csv.ConvertOptions(column_types=types),
    )
    return int(table.num_rows)


def with_pandas(path: str) -> int:
    import pandas

    types = {name: "str" if name in CATEGORIES else "float32" for name in NAMES}  # integers may be missing
    return len(pandas.read_csv(path, sep="\t", header=None, names=NAMES, dtype=types, engine="c", quoting=3))


TOOLS: dict[str, Callable[[str], int]] = {"polars": with_polars, "pyarrow": with_pyarrow, "pandas": with_pandas}


def main(tool: str, path: str, core: str) -> None:
    os.sched_setaffinity(0, {int(core)})
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        rows = TOOLS[tool](path)
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"rows": rows, "seconds": min(seconds)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
