"""Malformed rows are skipped, counted and shown, until there are too many."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from clickline.errors import DataError
from support.data.click_logs import criteo, dataset, taken


def log(path: Path, *, rows: int, bad: list[int]) -> Path:
    """`bad` are line numbers, counted from 1."""
    lines = criteo(rows).splitlines(keepends=True)
    for line in bad:
        lines[line - 1] = b"nonsense\n"
    path.write_bytes(b"".join(lines))
    return path


def test_lines_are_exact_across_blocks_and_files(tmp_path: Path) -> None:
    log(tmp_path / "a", rows=300, bad=[1, 137, 300])
    log(tmp_path / "b", rows=300, bad=[200])
    data = dataset([tmp_path], "criteo", tmp_path, block_bytes=4096, threads=3, max_bad_rows=10)
    assert sum(len(batch) for batch, _ in taken(data)) == 596
    assert [(Path(row.path).name, row.line) for row in data.report.examples] == [
        ("a", 1),
        ("a", 137),
        ("a", 300),
        ("b", 200),
    ]
    assert (data.report.rows, data.report.bad) == (596, 4)


def test_csv_lines_count_the_header(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("label,user,tags,price\n1,u,x,2\n1,u\n")
    data = dataset([tmp_path / "a"], "csv", tmp_path, max_bad_rows=10)
    taken(data)
    assert [row.line for row in data.report.examples] == [3]


def test_share_within_the_limit_is_not_judged_by_the_first_rows(tmp_path: Path) -> None:
    path = log(tmp_path / "a", rows=2000, bad=[5, 6])
    data = dataset([path], "criteo", tmp_path, max_bad_rows=0.001, block_bytes=4096)
    taken(data)
    assert data.report.bad == 2


def test_share_above_the_limit(tmp_path: Path) -> None:
    path = log(tmp_path / "a", rows=2000, bad=[5, 6, 1900])
    with pytest.raises(DataError) as caught:
        taken(dataset([path], "criteo", tmp_path, max_bad_rows=0.001))
    message = str(caught.value)
    assert message.startswith("3 of 2000 rows are malformed, more than data.max_bad_rows allows (0.1000% of the rows):")
    assert f"\n  {path}, line 1900: " in message
    assert "raise data.max_bad_rows" in message


def test_share_far_above_the_limit_stops_early(tmp_path: Path) -> None:
    path = log(tmp_path / "a", rows=3000, bad=list(range(100, 120)))
    with pytest.raises(DataError, match=r"of \d{3} rows are malformed"):
        taken(dataset([path], "criteo", tmp_path, max_bad_rows=0.001, block_bytes=4096))


def test_small_log_is_judged_at_its_end(tmp_path: Path) -> None:
    path = log(tmp_path / "a", rows=100, bad=[5])
    with pytest.raises(DataError, match=r"1 of 100 rows are malformed"):
        taken(dataset([path], "criteo", tmp_path, max_bad_rows=0.001))


def test_none_allowed(tmp_path: Path) -> None:
    path = log(tmp_path / "a", rows=5000, bad=[2])
    with pytest.raises(DataError, match=r"1 of \d{1,3} rows are malformed"):
        taken(dataset([path], "criteo", tmp_path, max_bad_rows=0, block_bytes=4096))


def test_number_of_rows(tmp_path: Path) -> None:
    path = log(tmp_path / "a", rows=100, bad=[5, 6, 7])
    taken(dataset([path], "criteo", tmp_path, max_bad_rows=3))
    with pytest.raises(DataError, match=r"3 of 100 rows are malformed, more than data.max_bad_rows allows \(2 rows\)"):
        taken(dataset([path], "criteo", tmp_path, max_bad_rows=2))


def test_binary_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(os.urandom(100_000))
    with pytest.raises(DataError, match=r"rows are malformed.*\n(  .*/a, line \d+: .*\n){10}check that data.format"):
        taken(dataset([tmp_path / "a"], "criteo", tmp_path))


def test_each_example_is_printed_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = log(tmp_path / "a", rows=3000, bad=[5, *range(1000, 1100)])
    with caplog.at_level(logging.WARNING, logger="clickline.data"), pytest.raises(DataError) as caught:
        taken(dataset([path], "criteo", tmp_path, max_bad_rows=3, block_bytes=4096))
    printed = [record.getMessage() for record in caplog.records] + str(caught.value).splitlines()
    numbers = [line.partition(", line ")[2].partition(":")[0] for line in printed if ", line " in line]
    assert len(numbers) == len(set(numbers)) == 10
    assert numbers[0] == "5"


def test_only_bad_rows(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("nonsense\n" * 5)
    with pytest.raises(DataError, match=r"no rows in the data"):
        taken(dataset([tmp_path / "a"], "criteo", tmp_path, max_bad_rows=100))


def test_first_ones_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = log(tmp_path / "a", rows=100, bad=list(range(1, 21)))
    data = dataset([path], "criteo", tmp_path, max_bad_rows=50)
    with caplog.at_level(logging.WARNING, logger="clickline.data"):
        taken(data, epoch=0)
        taken(data, epoch=1)
    assert len(caplog.records) == 10
    assert caplog.records[0].getMessage().startswith(f"Skipped a malformed row: {path}, line 1: ")
