"""Importing Avazu: times and their columns, the header in both files, hours that go back."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from clickline.config.loading.reader import read_job
from clickline.data.dataset import Dataset
from clickline.data.importers import import_avazu
from clickline.data.schema import Schema
from clickline.errors import DataError
from support.data.downloads import AVAZU_COLUMNS, avazu_lines, left

HEADER = AVAZU_COLUMNS.encode() + b"\n"
HOURS = ["14102100"] * 4 + ["14102123"] * 3 + ["14102205"] * 3


def written(path: Path, lines: list[bytes], header: bytes = HEADER) -> str:
    path.write_bytes(header + b"".join(lines))
    return str(path)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_hours_become_times_and_both_files_have_a_header(tmp_path):
    source = tmp_path / "train.gz"
    source.write_bytes(gzip.compress(HEADER + b"".join(avazu_lines(HOURS))))
    done = import_avazu(str(source), tmp_path / "out")
    train, test = rows_of(done.train), rows_of(done.test)
    assert [row["id"] for row in train] == [str(n) for n in range(8)]
    assert [row["id"] for row in test] == ["8", "9"]
    assert list(train[0]) == list(test[0]) == [*AVAZU_COLUMNS.split(","), "hour_of_day", "weekday", "time"]
    # 21 October 2014 was a Tuesday; its midnight, UTC, is 1413849600.
    assert [(row["hour_of_day"], row["weekday"], row["time"]) for row in (train[0], train[6], test[0])] == [
        ("0", "1", "1413849600"),
        ("23", "1", str(1413849600 + 23 * 3600)),
        ("5", "2", str(1413849600 + 29 * 3600)),
    ]
    assert train[3]["C21"] == "v20"


def test_the_job_reads_the_rows(tmp_path):
    done = import_avazu(written(tmp_path / "train.csv", avazu_lines(HOURS)), tmp_path / "out")
    job = read_job(done.job).job
    schema = Schema.of(job.data, job.features)
    assert (schema.labels, schema.time) == (("click",), "time")
    assert set(schema.slot_names) == {*AVAZU_COLUMNS.split(",")[3:], "hour_of_day", "weekday"}
    data = Dataset(data=job.data, schema=schema, paths=job.data.train, batch_size=8, seed=1, shuffle=False)
    [(batch, _)] = data.batches(epoch=0, start=None)
    assert batch.labels[:, 0].tolist() == [0, 1] * 4
    assert batch.times is not None
    assert batch.times[0] == 1413849600


def test_only_the_first_rows_and_windows_line_ends(tmp_path):
    lines = [line.replace(b"\n", b"\r\n") for line in [*avazu_lines(HOURS)[:5], b"bad\n", *avazu_lines(HOURS)[5:]]]
    source = written(tmp_path / "train.csv", lines, header=HEADER.replace(b"\n", b"\r\n"))
    done = import_avazu(source, tmp_path / "out", rows=5)
    assert [row["id"] for row in rows_of(done.train) + rows_of(done.test)] == ["0", "1", "2", "3", "4"]
    assert done.bad == 0  # the bad line comes after the last that is wanted
    assert b"\r" not in done.train.read_bytes()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"1,0,14102100,1\n", "needs 24 fields"),
        (avazu_lines(["14102100"])[0].replace(b"0,0,", b"0,2,"), "click must be 0 or 1, got '2'"),
        (avazu_lines(["14109900"])[0], "hour must be YYMMDDHH, got '14109900'"),
        (avazu_lines(["1410 1 1"])[0], "hour must be YYMMDDHH, got '1410 1 1'"),
        (avazu_lines(["141021001"])[0], "hour must be YYMMDDHH, got '141021001'"),
        (avazu_lines(["14102100"])[0].replace(b"v0", b'"v0"'), "without quotes"),
    ],
)
def test_a_bad_line_is_told_and_too_many_are_an_error(bad, reason, tmp_path):
    good = avazu_lines(["14102100"] * 1200)
    done = import_avazu(written(tmp_path / "train.csv", [*good[:9], bad, *good[9:]]), tmp_path / "out")
    assert (done.bad, done.train_rows + done.test_rows) == (1, 1200)
    assert done.first_bad is not None
    assert done.first_bad.line == 11
    assert reason in done.first_bad.reason
    with pytest.raises(DataError, match=r"1 of 10 lines .* the first is line 11"):
        import_avazu(written(tmp_path / "train.csv", [*good[:9], bad]), tmp_path / "new")
    assert left(tmp_path) == ["out", "train.csv"]


def test_hours_that_go_back_are_an_error(tmp_path):
    source = written(tmp_path / "train.csv", avazu_lines(["14102101", "14102100"]))
    with pytest.raises(DataError, match="order of time: line 3 is of hour 14102100, after 14102101"):
        import_avazu(source, tmp_path / "out")
    assert left(tmp_path) == ["train.csv"]


@pytest.mark.parametrize("header", [b"", HEADER.replace(b"click,", b"")], ids=["none", "that of test.csv"])
def test_another_header(header, tmp_path):
    source = written(tmp_path / "train.csv", avazu_lines(HOURS), header=header)
    with pytest.raises(DataError, match=r"not Avazu's header; expected is train.csv"):
        import_avazu(source, tmp_path / "out")
    assert left(tmp_path) == ["train.csv"]


def test_the_source_in_the_same_directory_survives(tmp_path):
    source = written(tmp_path / "train.csv", avazu_lines(HOURS))
    with pytest.raises(DataError, match="own source"):
        import_avazu(source, tmp_path, force=True)
    assert Path(source).read_bytes() == HEADER + b"".join(avazu_lines(HOURS))
