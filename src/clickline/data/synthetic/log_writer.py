"""Writes a synthetic log, and beside it what is true about it and a job that trains on it.

PATH.train.SUFFIX   all rows but the last, in order of time; or PATH.train-00.SUFFIX, -01, … if in several files
PATH.test.SUFFIX    the last rows, if any are asked for
PATH.job.yaml       a job that trains on the one and tests on the other
PATH.json           seed, options, and the best AUC and log loss that any model can have; named last

Rows go through block by block, so memory does not grow with the log. Files get their names when all of them are
complete: whatever goes wrong before, nothing is left behind. The same log gives the same bytes, compressed or not.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol, TypedDict, get_args

import numpy as np
import pyarrow as pa
import yaml
from numpy.typing import NDArray

from clickline.data.synthetic.best_score import Score
from clickline.data.synthetic.log_description import JobPart, LogDescription, WrittenLog
from clickline.errors import DataError

Compression = Literal["none", "gzip", "zstd"]
_ENDINGS = {"none": "", "gzip": ".gz", "zstd": ".zst"}
MOST_FILES = 10_000
_UNFINISHED = ".unfinished"


class Log(Protocol):
    """Rows that are drawn block by block, and come out the same whenever they are."""

    name: str
    suffix: str
    header: bytes
    """First line of every file, if the format has one."""
    rows: int
    seed: int

    def block(self, number: int) -> Any:
        """Some rows, with at least `labels` and `chances`, the true probabilities in parts of 2^-20."""

    def text(self, rows: Any) -> tuple[bytes, NDArray[np.int64]]:
        """The lines of a block, and where each ends."""

    def describe(self) -> LogDescription:
        """`options` that the log was made with, and the size of each `vocabulary`."""

    def job(self) -> JobPart:
        """The sections of a job that read this log and learn from it."""


@dataclass(frozen=True, slots=True)
class _Part:
    path: Path
    rows: int
    score: Score

    @property
    def unfinished(self) -> Path:
        return self.path.with_name(self.path.name + _UNFINISHED)


class WriteOptions(TypedDict, total=False):
    """The named arguments of `write`, for functions that pass them on."""

    test_rows: int
    files: int
    compress: Compression
    force: bool
    progress: Callable[[int], None] | None


def write(
    log: Log,
    path: Path,
    *,
    test_rows: int = 0,
    files: int = 1,
    compress: Compression = "none",
    force: bool = False,
    progress: Callable[[int], None] | None = None,
) -> WrittenLog:
    """Write all of `log`; gives back what PATH.json holds.

    `path` may have the log's suffix or none. `force` overwrites. `progress` is called with the number of rows written.
    """
    _check(log, test_rows=test_rows, files=files, compress=compress)
    stem = path.with_suffix("") if path.suffix == log.suffix else path
    ending = log.suffix + _ENDINGS[compress]
    train, test = Score(), Score()
    parts = [
        _Part(_beside(stem, f"{name}{ending}"), rows, train) for name, rows in _shares(log.rows - test_rows, files)
    ]
    tests = [_Part(_beside(stem, f".test{ending}"), test_rows, test)] if test_rows else []
    job, truth = _Part(_beside(stem, ".job.yaml"), 0, train), _Part(_beside(stem, ".json"), 0, train)
    everything = [*parts, *tests, job, truth]
    if not force:
        _refuse_to_overwrite([part.path for part in everything])
    names = {"train": [str(part.path) for part in parts], "test": [str(part.path) for part in tests]}
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(error, stem) from error
    try:
        _write_rows(log, [*parts, *tests], compress=compress, progress=progress)
        job.unfinished.write_text(_job_text(log, stem=stem, job=job.path, names=names), encoding="utf-8")
        described = log.describe()
        description: WrittenLog = {
            "log": log.name,
            "seed": log.seed,
            "rows": log.rows,
            "options": described["options"] | {"test_rows": test_rows, "files": files, "compress": compress},
            "vocabulary": described["vocabulary"],
            "files": {**names, "job": str(job.path)},
            "train": train.to_dict(),
            "test": test.to_dict() if test_rows else None,
        }
        truth.unfinished.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
        truth.path.unlink(missing_ok=True)  # where it exists, the other files are complete and belong to it
        for part in everything:
            part.unfinished.replace(part.path)
    except OSError as error:
        raise _unwritable(error, stem) from error
    finally:
        for part in everything:
            part.unfinished.unlink(missing_ok=True)
    return description


def _check(log: Log, *, test_rows: int, files: int, compress: str) -> None:
    if log.rows < 1:
        raise DataError(f"rows is {log.rows}, but a log has at least 1")
    if not 0 <= test_rows < log.rows:
        raise DataError(
            f"test_rows is {test_rows} of {log.rows} rows in all; it must lie between 0 and {log.rows - 1}, "
            "so that some are left to train on"
        )
    most = min(MOST_FILES, log.rows - test_rows)
    if not 1 <= files <= most:
        raise DataError(f"files is {files}, but {log.rows - test_rows} rows to train on fit into 1 to {most} files")
    if compress not in get_args(Compression):
        raise DataError(f"compress is {compress!r}, but must be one of {', '.join(get_args(Compression))}")


def _unwritable(error: OSError, stem: Path) -> DataError:
    return DataError(f"'{error.filename or stem}' cannot be written: {error.strerror or error}")


def _beside(stem: Path, ending: str) -> Path:
    return stem.with_name(stem.name + ending)


def _shares(rows: int, files: int) -> Iterator[tuple[str, int]]:
    """The names of the training files, and how many rows each gets."""
    if files == 1:
        yield ".train", rows
        return
    width = max(2, len(str(files - 1)))  # so that names sort as the rows do
    for number in range(files):
        yield f".train-{number:0{width}}", rows * (number + 1) // files - rows * number // files


def _refuse_to_overwrite(paths: Sequence[Path]) -> None:
    there = [str(path) for path in paths if path.exists()]
    if there:
        raise DataError(f"there already is {', '.join(there)}: use another path, or force (--force) to overwrite")


def _write_rows(
    log: Log, parts: Sequence[_Part], *, compress: Compression, progress: Callable[[int], None] | None
) -> None:
    number = used = done = 0
    rows, data, ends = None, memoryview(b""), np.empty(0, dtype=np.int64)
    for part in parts:
        left = part.rows
        with _opened(part.unfinished, compress) as file:
            file.write(log.header)
            while left:
                # A block may be divided between files: what one file leaves of it, from `used` on, goes into the next.
                if used == len(ends):
                    rows = log.block(number)
                    text, ends = log.text(rows)
                    data, number, used = memoryview(text), number + 1, 0
                count = min(left, len(ends) - used)
                last = used + count
                file.write(data[int(ends[used - 1]) if used else 0 : int(ends[last - 1])])
                part.score.add(rows.chances[used:last], rows.labels[used:last])  # type: ignore[union-attr]
                used, left, done = last, left - count, done + count
                if progress is not None:
                    progress(done)


@contextmanager
def _opened(path: Path, compress: Compression) -> Iterator[IO[bytes]]:
    with path.open("wb") as raw:
        if compress == "gzip":  # no name and no time inside, so that the same rows are the same bytes
            with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as file:
                yield file  # type: ignore[misc]
        elif compress == "zstd":
            with pa.CompressedOutputStream(pa.PythonFile(raw, mode="w"), "zstd") as stream:
                yield stream
        else:
            yield raw


def _job_text(log: Log, *, stem: Path, job: Path, names: dict[str, list[str]]) -> str:
    settings = log.job()
    data, train = settings.pop("data"), settings.pop("train", {})
    whole = {
        "name": stem.name,
        "data": data | {what: paths for what, paths in names.items() if paths},
        **settings,
        "train": {"epochs": 2} | train,
    }
    return f"# clickline train {job}\n" + yaml.safe_dump(whole, sort_keys=False, allow_unicode=True)
