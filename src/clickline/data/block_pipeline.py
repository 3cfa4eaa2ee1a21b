"""One reading of some rows: blocks are parsed in the background and gathered into windows, batches come out.

A Reading does nothing before `start`, or before its first batch is asked for. Started early, it fills up to its
bounds and waits: so the next part of the data can be at hand when the current one ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from clickline._native import Parsed, Parser
from clickline.config.data import Data
from clickline.data.batch import Batch
from clickline.data.position import Position
from clickline.data.prefetch import Conveyor
from clickline.data.schema import Schema
from clickline.data.shuffling import Window
from clickline.data.sources import column_blocks
from clickline.data.sources.arrow import parse_table
from clickline.data.sources.text_blocks import Block, Meter, Opened, Span, text
from clickline.errors import ClicklineError

TEXT = ("criteo", "slots", "elasticctr", "csv")


def way_of_opening(data: Data, schema: Schema, *, meter: Meter, span: Span = (0, None)) -> Opened:
    """How a file becomes blocks. A span is a part of it, for formats that can be read in parts."""
    if data.format in TEXT:
        return partial(text, data=data, meter=meter, span=span)
    if data.format == "parquet":
        return partial(column_blocks.parquet, wanted=schema.columns_of, span=span)
    if span != (0, None):
        raise ValueError(f"Files of the format '{data.format}' are read as a whole, not from {span[0]} to {span[1]}.")
    return partial(column_blocks.custom, reader=column_blocks.load_reader(data))


class Parsing:
    """Parses blocks. May be called by several threads at once; the native part runs without the interpreter lock."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parsers: dict[tuple[str, ...], Parser] = {}

    def __call__(self, block: Block) -> tuple[Block, Parsed]:
        try:
            return block, self._parsed(block)
        except ClicklineError as error:
            raise type(error)(f"'{block.path}': {error}") from error

    def _parsed(self, block: Block) -> Parsed:
        data: Any = block.data
        if not isinstance(data, bytes):
            return parse_table(self._parser(()), data)
        return self._parser(block.columns).parse(data)

    def _parser(self, columns: tuple[str, ...]) -> Parser:
        # Two threads may both make one, which does no harm.
        if columns not in self._parsers:
            self._parsers[columns] = self._schema.parser(columns=list(columns))
        return self._parsers[columns]


class Reading(Iterator[tuple[Batch, Position]]):
    """Batches, each with the position from which to go on after it. Close it, or its threads wait until it is gone."""

    def __init__(
        self,
        blocks: Iterator[Block],
        *,
        parse: Parsing,
        gather: Callable[[Iterator[tuple[Block, Parsed]]], Iterator[Window]],
        batch_size: int,
        threads: int,
    ) -> None:
        """Neither `blocks` nor `gather` may hold on to this object: a forgotten one would never be collected."""
        self._blocks, self._parse, self._gather = blocks, parse, gather
        self._batch_size, self._threads = batch_size, threads
        self._gathered: Conveyor[Window, Window] | None = None
        self._batches: Iterator[tuple[Batch, Position]] = iter(())
        self._closed = False

    def start(self) -> None:
        """Begin to read, in the background. Nothing happens the second time, or after `close`."""
        if self._gathered is not None or self._closed:
            return
        parsed = Conveyor(
            self._blocks,
            work=self._parse,
            threads=self._threads,
            ahead=2 * self._threads + 2,
            name="clickline-parse",
        )
        self._gathered = Conveyor(self._gather(parsed), upstream=parsed, ahead=2, name="clickline-window")
        self._batches = _batches(self._gathered, self._batch_size)

    def __next__(self) -> tuple[Batch, Position]:
        self.start()
        return next(self._batches)

    def close(self) -> None:
        """Stop the threads and wait for them. Safe to call twice."""
        self._closed = True
        self._batches = iter(())
        if self._gathered is not None:
            self._gathered.close()


def _batches(gathered: Iterator[Window], size: int) -> Iterator[tuple[Batch, Position]]:
    for window in gathered:
        yield from window.batches(size)
        del window  # or there would be three of them while the next one is awaited
