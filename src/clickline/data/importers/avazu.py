"""Avazu's Click-Through Rate Prediction, as Kaggle has it: CSV in the order of time, which it gives in hours.

The hour YYMMDDHH (UTC) stays in the files but is not a slot: the same hour never comes back, so nothing learned about
one would be of use. Hour of day and weekday do, and `time` holds seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from clickline.data.importers.downloads import Progress, blocks, located, taken
from clickline.data.importers.import_output import Imported, writing
from clickline.data.importers.malformed import Malformed
from clickline.errors import DataError

_NAMES = ("train.csv", "train.csv.gz", "train.gz", "train")
_COLUMNS = (
    *("id", "click", "hour", "C1", "banner_pos", "site_id", "site_domain", "site_category", "app_id", "app_domain"),
    *("app_category", "device_id", "device_ip", "device_model", "device_type", "device_conn_type"),
    *(f"C{number}" for number in range(14, 22)),
)
_ADDED = ("hour_of_day", "weekday", "time")
_EXPECTED = (
    "expected is train.csv or train.gz of Kaggle's Avazu Click-Through Rate Prediction, with a header "
    f"({','.join(_COLUMNS[:5])},…,{_COLUMNS[-1]}); the test file has no column click"
)
_JOB = {
    "name": "avazu",
    "data": {"format": "csv"},
    "features": {"labels": ["click"], "slots": [*_COLUMNS[3:], *_ADDED[:2]], "time": "time"},
    "model": {"name": "deepfm"},
}


def import_avazu(
    source: str,
    out: Path,
    *,
    test_share: float = 0.2,
    rows: int | None = None,
    force: bool = False,
    progress: Progress = lambda share: None,
) -> Imported:
    """Write train.csv, test.csv and job.yaml below `out`, of the first `rows` rows or of all."""
    files = located(source, names=_NAMES, expected=_EXPECTED)
    path = files[0].path
    malformed = Malformed(path=path, expected=_EXPECTED)
    header = ",".join((*_COLUMNS, *_ADDED)).encode() + b"\n"
    clock = _Clock(path)
    with writing(out, source=files, suffix="csv", header=header, test_share=test_share, force=force) as written:
        for before, lines in _lines(blocks(files[0], member="train.csv", expected=_EXPECTED, progress=progress), path):
            wanted = None if rows is None else rows - written.count
            judge = partial(_sound, block_start=before, clock=clock, malformed=malformed)
            sound = taken(lines, wanted=wanted, judge=judge)
            written.add(b"".join(sound), len(sound))
            malformed.check(written.count)
            if written.count == rows:
                break
        malformed.check(written.count, end=True)
        return written.publish(_JOB, bad=malformed.count, first_bad=malformed.first)


def _lines(pieces: Iterator[bytes], path: str) -> Iterator[tuple[int, list[bytes]]]:
    """Lines below the header, and how many lines come before them."""
    before = 0
    for block in pieces:
        lines = block.replace(b"\r\n", b"\n").split(b"\n")[:-1]
        if before == 0:
            header = lines[0].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
            if header != ",".join(_COLUMNS):
                raise DataError(f"'{path}' begins with {header[:200]!r}, which is not Avazu's header; {_EXPECTED}")
            yield 1, lines[1:]
        else:
            yield before, lines
        before += len(lines)


def _sound(lines: list[bytes], place: int, *, block_start: int, clock: _Clock, malformed: Malformed) -> list[bytes]:
    """The rows among the lines, with their new columns."""
    commas = len(_COLUMNS) - 1
    rows = []
    for number, line in enumerate(lines, block_start + place + 1):
        if not line:
            continue
        fields = line.split(b",", 3)
        # Quotes are refused: a quoted field may have commas in it, and lines are split at every comma here.
        if line.count(b",") != commas or b'"' in line:
            malformed.add(number, f"a line needs {commas + 1} fields without quotes, got {line.count(b',') + 1}")
        elif fields[1] not in (b"0", b"1"):
            malformed.add(number, f"click must be 0 or 1, got {_shown(fields[1])}")
        elif (added := clock.columns(fields[2], number)) is None:
            malformed.add(number, f"hour must be YYMMDDHH, got {_shown(fields[2])}")
        else:
            rows.append(line + added)
    return rows


class _Clock:
    """Turns hours into columns. There are few hours and many rows, so each is worked out once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._hour, self._columns = b"", b""

    def columns(self, hour: bytes, line: int) -> bytes | None:
        """What is appended to a row of this hour; None if it is none. Hours that go back are an error."""
        if hour == self._hour:
            return self._columns
        try:
            # strptime takes "1 1 1 1" too.
            time = datetime.strptime(hour.decode(), "%y%m%d%H").replace(tzinfo=UTC) if len(hour) == 8 else None
        except ValueError:
            return None
        if time is None or not hour.isdigit():
            return None
        # Eight digits, the year first: the order of the bytes is the order of time.
        if hour < self._hour:
            raise DataError(
                f"'{self._path}' is not in the order of time: line {line} is of hour {hour.decode()}, after "
                f"{self._hour.decode()}; sort it by its third column, or download it again: the original is sorted"
            )
        self._hour = hour
        self._columns = b",%d,%d,%d\n" % (time.hour, time.weekday(), time.timestamp())
        return self._columns


def _shown(field: bytes) -> str:
    return repr(field[:40].decode("utf-8", "replace"))
