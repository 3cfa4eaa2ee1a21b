"""Raw rows of a log as instances for a predictor: values as they stand in the log, by the name of their column.

Nothing is hashed or normalised here: the server does that, by the schema of its version. Which rows are valid, and
their labels and weights, is decided by the parser of the training, so that exactly the rows that training or testing
would have seen come out, in their order. Text must be UTF-8, since JSON is; other bytes are replaced, and such a value
is then not the same as in the log.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from clickline._native import Parsed, Parser
from clickline.config.data import Data
from clickline.data.position import LogOffset
from clickline.data.schema import CATEGORIES, INTEGERS, Schema
from clickline.data.sources.arrow import parse_table
from clickline.data.sources.block_source import BlockSource
from clickline.data.sources.files import find
from clickline.data.sources.log_block import LogBlock
from clickline.errors import ClicklineError

Instance = dict[str, Any]
_CRITEO = ("label", *INTEGERS, *CATEGORIES)


@dataclass(frozen=True, slots=True)
class RawRows:
    """Some rows, with their labels and weights."""

    instances: list[Instance]
    labels: NDArray[np.float32]
    """[rows, labels]"""
    weights: NDArray[np.float32] | None

    def __len__(self) -> int:
        return len(self.instances)


def raw_rows(data: Data, schema: Schema, paths: list[str], *, rows: int = 256) -> Iterator[RawRows]:
    """All valid rows of some files, at most `rows` at a time. Values that the log does not have are omitted."""
    reader = _BlockReader(schema)
    source = BlockSource(data, schema)
    for block in source.blocks(find(paths, options=data.storage), start=LogOffset()):
        try:
            instances, parsed = reader.rows(block)
        except ClicklineError as error:
            raise type(error)(f"'{block.path}': {error}") from error
        for first in range(0, len(instances), rows):
            part = slice(first, first + rows)
            weights = None if parsed.weights is None else parsed.weights[part]
            yield RawRows(instances[part], parsed.labels[part], weights)


def first_rows(data: Data, schema: Schema, paths: list[str], count: int) -> RawRows:
    """The first rows of some files."""
    first = next(islice(raw_rows(data, schema, paths, rows=count), 1), None)
    return RawRows([], np.zeros((0, len(schema.labels)), np.float32), None) if first is None else first


class _BlockReader:
    """Splits blocks into rows."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        names = [slot.column or slot.name for slot in schema.slots]
        self._wanted = dict.fromkeys([*names, *(dense.column or dense.name for dense in schema.dense)])
        self._parsers: dict[tuple[str, ...], Parser] = {}

    def rows(self, block: LogBlock) -> tuple[list[Instance], Parsed]:
        data: Any = block.data
        parser = self._parser(block.columns)
        if not isinstance(data, bytes):
            return self._table_rows(data, parser)
        parsed = parser.parse(data)
        take = self._splitter(block.columns)
        lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
        if parsed.bad:  # the parser reports only a few of them, so each line is parsed by itself
            valid = [len(parser.parse(line)) == 1 for line in lines]
            lines = [line for line, good in zip(lines, valid, strict=True) if good]
        # In formats of words, a line of blanks is no row; in columns, tabs alone are a row of empty fields. The product
        # with a bool is either both characters or none.
        instances = [take(line.decode("utf-8", "replace")) for line in lines if line.strip(b" \t" * self._by_words)]
        if len(instances) != len(parsed):  # or labels would belong to other rows
            raise ClicklineError(f"{len(parsed)} rows were parsed, but {len(instances)} were split; this is a bug")
        return instances, parsed

    @property
    def _by_words(self) -> bool:
        return self._schema.format in ("slots", "elasticctr")

    def _parser(self, columns: tuple[str, ...]) -> Parser:
        if columns not in self._parsers:
            self._parsers[columns] = self._schema.parser(columns=list(columns))
        return self._parsers[columns]

    def _splitter(self, columns: tuple[str, ...]) -> Callable[[str], Instance]:
        if self._schema.format == "slots":
            return lambda line: self._words(line, first=0, named_before=True)
        if self._schema.format == "elasticctr":
            return lambda line: self._words(line, first=2, named_before=False)
        known = _CRITEO if self._schema.format == "criteo" else columns
        wanted = [(index, name) for index, name in enumerate(known) if name in self._wanted]
        delimiter = "\t" if self._schema.format == "criteo" else self._schema.delimiter
        quoted = self._schema.format == "csv"

        def take(line: str) -> Instance:
            # `split` is faster and gives the same fields as long as nothing is quoted.
            plain = not quoted or '"' not in line
            fields = line.split(delimiter) if plain else next(csv.reader([line], delimiter=delimiter))
            return {name: fields[index] for index, name in wanted if fields[index]}

        return take

    def _words(self, line: str, *, first: int, named_before: bool) -> Instance:
        """`name:value` or `value:name`; a name may come again."""
        row: dict[str, list[str]] = {}
        for word in line.replace("\t", " ").split(" "):
            if not word:
                continue
            if first:
                first -= 1
                continue
            before, _, after = word.partition(":") if named_before else word.rpartition(":")
            name, value = (before, after) if named_before else (after, before)
            if name in self._wanted and value:
                row.setdefault(name, []).append(value)
        return {name: values[0] if len(values) == 1 else values for name, values in row.items()}

    def _table_rows(self, table: pa.RecordBatch, parser: Parser) -> tuple[list[Instance], Parsed]:
        parsed = parse_table(parser, table)
        if parsed.bad:
            valid = [len(parse_table(parser, table.slice(row, 1))) == 1 for row in range(table.num_rows)]
            table = table.filter(pa.array(valid))
        columns = {name: _values(table.column(name)) for name in table.schema.names if name in self._wanted}
        # `zip` of no columns yields no rows, but every row has its label and must stay in its place.
        rows = zip(*columns.values(), strict=True) if columns else ([] for _ in range(table.num_rows))
        instances = [
            {name: value for name, value in zip(columns, row, strict=True) if value is not None} for row in rows
        ]
        return instances, parsed


def _values(column: pa.Array) -> list[Any]:
    """Values as JSON can hold them, each such that the parser reads it as the same value."""
    kind = column.type
    if types.is_dictionary(kind):
        return _values(column.dictionary_decode())
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [None if cell is None else _list(cell, kind.value_type) for cell in column.to_pylist()]
    if types.is_timestamp(kind) or types.is_date(kind):
        column = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    elif types.is_float16(kind) or types.is_float32(kind):
        # The key of a number is made of its shortest text, which is another one for the same number in 64 bits.
        shortest = np.asarray(column.cast(pa.float32()).fill_null(0)).astype("U")
        column = pa.array([float(text) for text in shortest], mask=np.asarray(column.is_null()))
    return [_plain(value) for value in column.to_pylist()]


def _list(values: list[Any], kind: pa.DataType) -> list[Any] | None:
    return [value for value in _values(pa.array(values, type=kind)) if value is not None] or None


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace") or None
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value) or None
