"""The output of an import: training rows, test rows and the job, all of them or nothing. There may be further jobs.

Rows are written once, in the order of time, into a staging directory; at the end the last share of them is moved into
the test file, since only then is their number known. Everything is then renamed into place, the job last: where there
is a job, its data is complete.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from clickline.config.loading.reader import read_job
from clickline.data.report import BadRow
from clickline.data.sources.files import File
from clickline.errors import DataError

_JOB = "job.yaml"
_COPIED = 1 << 20


@dataclass(frozen=True, slots=True)
class Imported:
    """What was written, and what was left out."""

    train: Path
    test: Path
    job: Path
    train_rows: int
    test_rows: int
    bad: int
    first_bad: BadRow | None
    other_jobs: tuple[Path, ...] = ()
    """Jobs that learn something else from the same rows."""

    def to_dict(self) -> dict[str, object]:
        """As --json prints it."""
        return {
            "train": str(self.train),
            "test": str(self.test),
            "job": str(self.job),
            "train_rows": self.train_rows,
            "test_rows": self.test_rows,
            "bad": self.bad,
            "first_bad": None if self.first_bad is None else str(self.first_bad),
            "other_jobs": [str(path) for path in self.other_jobs],
        }


class ImportRows:
    """Imported rows, written to a staging file and then split into train and test files. Lines end with a newline."""

    def __init__(self, *, out: Path, aside: Path, suffix: str, header: bytes, test_share: float) -> None:
        self._out, self._aside, self._header, self._share = out, aside, header, test_share
        self._names = [f"train.{suffix}", f"test.{suffix}"]
        self._file = (aside / self._names[0]).open("w+b")
        self._file.write(header)
        self._marks = [(0, len(header))]  # (rows before, offset) of every block: where to look for the split
        self.count = 0

    def add(self, lines: bytes, count: int) -> None:
        """Append `count` rows."""
        with _explained(self._out):
            self._file.write(lines)
        self.count += count
        self._marks.append((self.count, self._marks[-1][1] + len(lines)))

    def publish(
        self,
        job: Mapping[str, Any],
        *,
        other_jobs: Mapping[str, Mapping[str, Any]] | None = None,
        bad: int = 0,
        first_bad: BadRow | None = None,
    ) -> Imported:
        """Split, and make everything visible. `job`, and other jobs by file name, lack data.train and data.test."""
        if self.count < 2:
            raise DataError(f"there are {self.count} rows to import; at least 2 are needed, to train and to test")
        test_rows = min(max(round(self.count * self._share), 1), self.count - 1)
        train, test = (self._out / name for name in self._names)
        paths = {"train": str(train.absolute()), "test": str(test.absolute())}
        with _explained(self._out):
            self._split(self.count - test_rows)
            jobs = {**(other_jobs or {}), _JOB: job}
            for name, one in jobs.items():
                self._write_job(name, {**one, "data": {**one.get("data", {}), **paths}})
            # The old jobs go first and the new ones come last: a crash in between leaves data without a job, never a
            # job with the data of another import.
            for name in jobs:
                (self._out / name).unlink(missing_ok=True)
            for name in (*self._names, *jobs):
                (self._aside / name).replace(self._out / name)
        return Imported(
            train=train,
            test=test,
            job=self._out / _JOB,
            train_rows=self.count - test_rows,
            test_rows=test_rows,
            bad=bad,
            first_bad=first_bad,
            other_jobs=tuple(self._out / name for name in other_jobs or {}),
        )

    def _write_job(self, name: str, job: Mapping[str, Any]) -> None:
        text = yaml.safe_dump(job, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
        (self._aside / name).write_text(f"# clickline train {self._out / name}\n{text}", encoding="utf-8")
        # Checked while nothing is visible yet: a job that cannot be loaded must not be published.
        read_job(self._aside / name)

    def close(self) -> None:
        # What is still buffered of a failed import may not fit on the disk either, and is not needed.
        with suppress(OSError):
            self._file.close()

    def _split(self, row: int) -> None:
        """Move everything from `row` on into the test file."""
        # Only the block around the split is searched for line ends, not the whole file.
        before, offset = max(mark for mark in self._marks if mark[0] <= row)
        self._file.seek(offset)
        for _ in range(row - before):
            self._file.readline()
        place = self._file.tell()
        with (self._aside / self._names[1]).open("wb") as test:
            test.write(self._header)
            shutil.copyfileobj(self._file, test, _COPIED)
            _sync(test)
        self._file.truncate(place)
        _sync(self._file)
        self._file.close()


@contextmanager
def writing(
    out: Path,
    *,
    source: list[File],
    suffix: str,
    header: bytes = b"",
    test_share: float,
    force: bool,
    other_jobs: tuple[str, ...] = (),
) -> Iterator[ImportRows]:
    """Rows to write below `out`. Unless they are published, nothing is left of them."""
    if not 0 < test_share < 1:
        raise DataError(f"the share of rows for testing must be between 0 and 1, got {test_share}")
    _check_free(out, [f"train.{suffix}", f"test.{suffix}", _JOB, *other_jobs], source=source, force=force)
    made = [path for path in (out, *out.parents) if not path.exists()]
    try:
        with _explained(out):
            out.mkdir(parents=True, exist_ok=True)
            # Inside `out`: renames stay within one file system, and a name with a dot is not read as data.
            aside = Path(tempfile.mkdtemp(prefix=".importing-", dir=out))
        try:
            with _explained(out):
                rows = ImportRows(out=out, aside=aside, suffix=suffix, header=header, test_share=test_share)
            try:
                yield rows
            finally:
                rows.close()
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    finally:
        for path in made:
            with suppress(OSError):  # not empty: the import went well
                path.rmdir()


def _check_free(out: Path, names: list[str], *, source: list[File], force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise DataError(f"'{out}' is a file, but a directory to write to is needed; name another one")
    there = [out / name for name in names if (out / name).exists()]
    for path in there:
        if any(Path(file.path).exists() and path.samefile(file.path) for file in source):
            raise DataError(f"the import would overwrite its own source '{path}'; write to another directory")
    if there and not force:
        listed = ", ".join(path.name for path in there)
        raise DataError(f"'{out}' has {listed} already; write to another directory, or overwrite with --force")


def _sync(file: BinaryIO) -> None:
    # Before the renames: a name may reach the disk before the content of its file, and a power failure would then leave
    # a published file that is cut short.
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _explained(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"writing to '{out}' failed: {error.strerror or error}; check its owner and free space"
        ) from error
