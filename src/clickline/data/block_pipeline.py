"""Blocks of the log become batches, in background threads.

    blocks ── one thread: read ── `threads` threads: parse ── one thread: build windows ── the consumer: take batches

The pipeline only connects the stages: blocks come from a BlockSource, a BlockParser turns each into rows, a
WindowBuilder (shuffling.py) gathers rows into windows, and a Prefetcher (prefetch.py) runs each stage ahead of the
next one within a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clickline._native import Parsed, Parser
from clickline.data.batch import Batch
from clickline.data.position import Position
from clickline.data.prefetch import Prefetcher
from clickline.data.schema import Schema
from clickline.data.shuffling import Window, WindowBuilder
from clickline.data.sources.log_block import LogBlock
from clickline.errors import ClicklineError

_WINDOWS_AHEAD = 2
"""The window that the consumer takes batches from, and the one that is being built."""


class BlockParser:
    """Parses blocks into rows. Several threads may call it at once: native code parses without the interpreter lock."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parsers: dict[tuple[str, ...], Parser] = {}
        """By the columns of the file: CSV files may have theirs in different orders."""

    def parse(self, block: LogBlock) -> tuple[LogBlock, Parsed]:
        """The block's rows, with the block, which knows where they are from."""
        try:
            return block, self._parse(block)
        except ClicklineError as error:
            raise type(error)(f"'{block.path}': {error}") from error

    def _parse(self, block: LogBlock) -> Parsed:
        data: Any = block.data
        if not isinstance(data, bytes):
            from clickline.data.sources.arrow import parse_table

            return parse_table(self._parser(()), data)
        return self._parser(block.columns).parse(data)

    def _parser(self, columns: tuple[str, ...]) -> Parser:
        # No lock: if two threads make the same parser, one of the two is used, and they are equal.
        if columns not in self._parsers:
            self._parsers[columns] = self._schema.parser(columns=list(columns))
        return self._parsers[columns]


class BlockPipeline(Iterator[tuple[Batch, Position]]):
    """The batches of some blocks, each with the position at which reading resumes after it.

    Nothing runs before `start` or the first batch. Started early, the pipeline fills up to its bounds and waits, so
    that the next part of the data is at hand when the current one ends. It must be closed.
    """

    def __init__(
        self,
        blocks: Iterator[LogBlock],
        *,
        parser: BlockParser,
        window_builder: WindowBuilder,
        batch_size: int,
        threads: int,
    ) -> None:
        """Neither `blocks` nor `window_builder` may refer to this object, or it would never be garbage-collected.

        (The background threads hold them, and a pipeline without references stops its threads.)
        """
        self._blocks, self._parser, self._window_builder = blocks, parser, window_builder
        self._batch_size, self._threads = batch_size, threads
        self._windows: Prefetcher[Window, Window] | None = None
        self._batches: Iterator[tuple[Batch, Position]] = iter(())
        self._closed = False

    def start(self) -> None:
        """Start reading in the background. Does nothing the second time, or after `close`."""
        if self._windows is not None or self._closed:
            return
        parsed = Prefetcher(
            self._blocks,
            work=self._parser.parse,
            threads=self._threads,
            # Two blocks for each parsing thread, one being read, one being gathered: no stage waits for another.
            ahead=2 * self._threads + 2,
            name="clickline-parse",
        )
        windows = self._window_builder.windows(parsed)
        self._windows = Prefetcher(windows, upstream=parsed, ahead=_WINDOWS_AHEAD, name="clickline-window")
        self._batches = _batches(self._windows, self._batch_size)

    def __next__(self) -> tuple[Batch, Position]:
        self.start()
        return next(self._batches)

    def close(self) -> None:
        """Stop the threads and wait for them. Safe to call twice."""
        self._closed = True
        # A generator in the middle of a window would keep that window in memory after the threads have stopped.
        self._batches = iter(())
        if self._windows is not None:
            self._windows.close()


def _batches(windows: Iterator[Window], size: int) -> Iterator[tuple[Batch, Position]]:
    for window in windows:
        yield from window.batches(size)
        del window  # while the next one is awaited, this would be a third window in memory
