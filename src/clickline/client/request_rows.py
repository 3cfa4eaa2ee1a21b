"""Rows to predict for from text: JSON lines, or logs, split by column and sent as raw values.

Values stay text, as they stand in the log, because that is what was hashed in training. Labels are not sent. The format
is recognised by the first line unless it is named.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from clickline.config.loading.suggestions import closest
from clickline.errors import DataError

FORMATS = ("auto", "json", "criteo", "csv", "slots", "elasticctr")
_CRITEO = ("label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27)))
_LONGEST = 16 * 1024 * 1024
"""Characters of the longest line that can be a row."""
Row = dict[str, Any]


def read_rows(
    lines: Iterable[str],
    *,
    source: str,
    form: str = "auto",
    delimiter: str = ",",
    columns: Callable[[], Sequence[str]] | None = None,
    on_dropped: Callable[[str], None] = lambda _: None,
) -> Iterator[Row]:
    """Rows of some lines; a DataError that names `source` and the line for one that cannot be read.

    `columns`: those that the model reads. Others, which logs have, are dropped; `on_dropped` is called once for each of
    them, with a suggestion if it looks like a column that the row lacks.
    """
    numbered = ((number, line.rstrip("\r\n")) for number, line in enumerate(lines, 1))
    kept: Iterator[tuple[int, str]] = ((number, line) for number, line in numbered if line.strip())
    first = next(kept, None)
    if first is None:
        return
    if form == "auto":
        form = _format_of(first[1])
    take: Callable[[str], Row]
    if form == "csv":
        header = _fields(first[1], delimiter)
        take = lambda line: _csv(line, header, delimiter)  # noqa: E731
    else:
        take = {"json": _json, "criteo": _criteo, "slots": _slots, "elasticctr": _elastic}[form]
        kept = chain([first], kept)
    # Called only now, since it asks the server: empty input needs none.
    if columns is not None:
        take = _only(take, columns(), on_dropped)
    for number, line in kept:
        if len(line) > _LONGEST:
            raise DataError(f"{source}, line {number}: {len(line):,} characters; a row has at most {_LONGEST:,}")
        try:
            yield take(line)
        except ValueError as error:
            raise DataError(f"{source}, line {number}: {error} (read as {form}; --format names another)") from None


def read_file(path: str, *, standard_input: IO[str], **options: Any) -> Iterator[Row]:
    """Rows of a file, or of standard input for -; further arguments as for `read_rows`."""
    if path == "-":
        yield from read_rows(standard_input, source="standard input", **options)
        return
    try:
        with Path(path).open(encoding="utf-8", newline="\n") as file:
            yield from read_rows(file, source=path, **options)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def batches(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """Lists of `size` rows; the last one may be shorter."""
    remaining = iter(rows)
    while part := list(islice(remaining, size)):
        yield part


def row_of_pairs(pairs: Sequence[str]) -> Row:
    """One row of COLUMN=VALUE; a column that is named again has several values."""
    row: Row = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise DataError(f"{pair!r} is not a value of a row; write COLUMN=VALUE, or the row as one JSON object")
        if name in row:
            row[name] = [*(row[name] if isinstance(row[name], list) else [row[name]]), value]
        else:
            row[name] = value
    return row


def _only(
    take: Callable[[str], Row], columns: Sequence[str], on_dropped: Callable[[str], None]
) -> Callable[[str], Row]:
    known, reported = set(columns), set[str]()

    def taken(line: str) -> Row:
        row = take(line)
        kept = {name: value for name, value in row.items() if name in known}
        if row and not kept:
            raise ValueError(f"the model reads none of {', '.join(list(row)[:10])}; it reads {', '.join(columns[:10])}")
        for name in row.keys() - known - reported:
            reported.add(name)
            meant = closest(name, [column for column in columns if column not in row])
            hint = f"; did you mean {meant}?" if meant else ""
            on_dropped(f"column {name!r} is dropped: the model does not read it{hint}")
        return kept

    return taken


def _format_of(line: str) -> str:
    if line.lstrip().startswith("{"):
        return "json"
    if line.count("\t") in (len(_CRITEO) - 1, len(_CRITEO) - 2):
        return "criteo"
    words = line.split()
    if len(words) > 1 and ":" in words[-1] and "," not in line.partition(":")[0]:
        return "elasticctr" if all(":" not in word for word in words[:2]) else "slots"
    return "csv"


def _json(line: str) -> Row:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError(f"a row must be a JSON object, but this is {type(row).__name__}")
    return row


def _criteo(line: str) -> Row:
    fields = line.split("\t")
    # 39 fields lack the label, which comes first, so names are aligned at the end.
    names = _CRITEO[len(_CRITEO) - len(fields) :]
    if len(fields) not in (len(_CRITEO), len(_CRITEO) - 1):
        raise ValueError(f"{len(fields)} fields with tabs between, but 40 were expected, or 39 without the label")
    return {name: value for name, value in zip(names, fields, strict=True) if value and name != "label"}


def _fields(line: str, delimiter: str) -> list[str]:
    return line.split(delimiter) if '"' not in line else next(csv.reader([line], delimiter=delimiter))


def _csv(line: str, header: list[str], delimiter: str) -> Row:
    fields = _fields(line, delimiter)
    if len(fields) != len(header):
        raise ValueError(f"{len(fields)} fields, but the first line names {len(header)} columns")
    return {name: value for name, value in zip(header, fields, strict=True) if value}


def _slots(line: str) -> Row:
    return _row_of_words(word.partition(":") for word in line.split())


def _elastic(line: str) -> Row:
    """show click feasign:slot …"""
    parts = (word.rpartition(":") for word in line.split()[2:])
    return _row_of_words((name, colon, value) for value, colon, name in parts)


def _row_of_words(words: Iterable[tuple[str, str, str]]) -> Row:
    row: dict[str, list[str]] = {}
    for name, colon, value in words:
        if not colon or not name:
            raise ValueError(f"{name + colon + value!r} is not a slot with a value")
        if value:
            row.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in row.items()}
