"""Checks of a job's input before training: files, a custom reader, columns, secrets.

Without them, a missing test file would be found after the last epoch.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from clickline.config.data import Data
from clickline.data.schema import Schema
from clickline.data.sources.files import File, find
from clickline.data.sources.text_blocks import header
from clickline.errors import ClicklineError, DataError, JobProblem
from clickline.files.storage import is_url

log = logging.getLogger("clickline.data")
_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def reader_problems(data: Data) -> Iterator[JobProblem]:
    """A reader of the user's own that cannot be loaded, or cannot be constructed with `data.reader`."""
    if ":" not in data.format:
        return
    from clickline.data.sources.column_blocks import load_reader

    try:
        load_reader(data)
    except ClicklineError as error:
        message = str(error)
        key = "data.reader" if message.startswith("data.reader") else "data.format"
        yield JobProblem(key, message.removeprefix("data.format: "))


def secret_problems(data: Data) -> Iterator[JobProblem]:
    """Environment variables that the job refers to and that are not set."""
    for key, text in _texts({"storage": data.storage, "reader": data.reader}, "data"):
        for name in _REFERENCE.findall(text):
            if name not in os.environ:
                yield JobProblem(key, f"refers to the environment variable {name}, which is not set: export {name}")


def paths_here(data: Data, paths: list[str]) -> list[str]:
    """Those of the paths that name files on this machine, of which some may be on other nodes only. URLs must work."""
    return [path for path in paths if is_url(path) or _names_files(path, data)]


def _names_files(path: str, data: Data) -> bool:
    try:
        return bool(find([path], options=data.storage))
    except DataError as error:
        log.info("left to other nodes: %s", error)
        return False


class InputFiles:
    """The files that a job's paths name, found once. Files of other nodes are not missed."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._first: dict[str, File] = {}
        """The first file to train on, to validate on and to test on."""
        self._problems: list[JobProblem] = []
        for what in ("train", "valid", "test"):
            for place, path in enumerate(getattr(data, what)):
                if data.placement == "node" and not paths_here(data, [path]):
                    continue
                try:
                    files = find([path], options=data.storage)
                except ClicklineError as error:
                    self._problems.append(JobProblem(f"data.{what}[{place}]", str(error)))
                else:
                    self._first.setdefault(what, files[0])

    def problems(self) -> list[JobProblem]:
        """Paths that name no file."""
        return self._problems

    def column_problems(self, schema: Schema) -> Iterator[JobProblem]:
        """Columns that the first files lack, for formats whose files name their columns."""
        for what, file in self._first.items():
            try:
                columns = _columns_of(file, self._data)
                if columns is not None:
                    schema.columns_of(columns)
            except ClicklineError as error:
                yield JobProblem(f"data.{what}", f"'{file.path}': {error}")


def _columns_of(file: File, data: Data) -> tuple[str, ...] | None:
    """The columns that a file names; None for formats that name none, and for empty files."""
    if data.format == "csv":
        return header(file, data) or None
    if data.format != "parquet":
        return None
    from clickline.data.sources.column_blocks import parquet_columns

    return parquet_columns(file)


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}")
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _texts(inner, f"{key}[{place}]")
