"""From files to batches: which rows, in which order, of which size; and nothing left behind."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest

from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.dataset import Dataset
from clickline.data.schema import Schema
from clickline.data.sources import text_blocks
from clickline.errors import DataError
from support.data.click_logs import criteo, dataset, plain, records, taken, write

KINDS = ["criteo", "gz", "csv", "parquet", "custom"]


def numbers(data: Dataset, *, epoch: int = 0) -> list[int]:
    """The row number that `criteo` writes into I1, undoing its log1p."""
    values = np.concatenate([batch.dense[:, 0] for batch, _ in data.batches(epoch=epoch)])
    return [int(value) for value in np.round(np.expm1(values))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shuffle", [True, False])
def test_threads_and_block_size_change_nothing(kind: str, shuffle: bool, tmp_path: Path) -> None:
    paths = [write(tmp_path, kind, rows, seed=rows) for rows in (150, 40, 99)]
    runs = [
        plain(
            taken(dataset(paths, kind, tmp_path, shuffle=shuffle, shuffle_rows=100, threads=threads, block_bytes=size))
        )
        for threads in (1, 3)
        for size in (4096, 1 << 20)
    ]
    assert runs[0] == runs[1] == runs[2] == runs[3]
    assert len(runs[0]) == 19


def test_order_of_the_log_without_shuffling(tmp_path: Path) -> None:
    path = write(tmp_path, "criteo", 200)
    assert numbers(dataset([path], "criteo", tmp_path, shuffle=False)) == list(range(200))
    assert numbers(dataset([path], "criteo", tmp_path, shuffle_rows=0)) == list(range(200))


def test_shuffling_stays_within_the_window(tmp_path: Path) -> None:
    path = write(tmp_path, "criteo", 200)
    found = numbers(dataset([path], "criteo", tmp_path, shuffle_rows=60))  # 64 rows: a multiple of the batch
    for first in range(0, 200, 64):
        window = range(first, min(first + 64, 200))
        assert sorted(found[first : first + 64]) == list(window) != found[first : first + 64]


def test_order_follows_seed_and_epoch(tmp_path: Path) -> None:
    path = write(tmp_path, "criteo", 200)
    data = dataset([path], "criteo", tmp_path)
    assert numbers(data, epoch=1) == numbers(data, epoch=1)
    assert numbers(data, epoch=1) != numbers(data, epoch=2)
    assert numbers(data) != numbers(dataset([path], "criteo", tmp_path, seed=8))


def test_only_the_last_batch_is_smaller(tmp_path: Path) -> None:
    paths = [write(tmp_path, "criteo", rows, seed=rows) for rows in (3, 150, 1, 46)]
    data = dataset(paths, "criteo", tmp_path, shuffle_rows=64)
    assert [len(batch) for batch, _ in data.batches(epoch=0)] == [16] * 12 + [8]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_globs_directories_and_urls_give_the_same(pack, tmp_path: Path) -> None:
    parts = [pack(criteo(30, first=30 * part)) for part in range(3)]
    system = fsspec.filesystem("memory")
    for part, content in enumerate(parts):
        (tmp_path / f"part-{part}.txt").write_bytes(content)
        system.pipe(f"/logs/part-{part}", content)
    try:
        paths = [str(tmp_path), f"{tmp_path}/part-*", f"file://{tmp_path}/*.txt", "memory://logs", "memory://logs/p*"]
        for path in paths:
            assert numbers(dataset([path], "criteo", tmp_path, shuffle=False)) == list(range(90))
    finally:
        system.rm("/logs", recursive=True)


def test_zstd_and_last_line_without_newline(tmp_path: Path) -> None:
    with pa.CompressedOutputStream(str(tmp_path / "a"), "zstd") as stream:
        stream.write(criteo(30).rstrip(b"\n"))
    (tmp_path / "b").write_bytes(criteo(5, first=30).rstrip(b"\n"))
    assert numbers(dataset([tmp_path / "a", tmp_path / "b"], "criteo", tmp_path, shuffle=False)) == list(range(35))


def test_csv_files_may_order_their_columns_differently(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("label,user,tags,price\n1,u,x;y,2.5\n")
    (tmp_path / "b").write_text("\ufeffprice,other,tags,label,user\r\n2.5,0,x;y,1,u\r\n")
    (batch, _), (other, _) = taken(dataset([tmp_path / "a", tmp_path / "b"], "csv", tmp_path, batch_size=1))
    assert plain([(batch, _)]) == plain([(other, _)])


def test_csv_without_header(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1|u|2.5\n0|v|3.5\n")
    data = Data(format="csv", header=False, delimiter="|")
    features = Features.model_validate({"labels": ["0"], "slots": ["1"], "dense": ["2"]})
    schema = Schema.of(data, features)
    rows = Dataset(data=data, schema=schema, paths=[f"{tmp_path}/a"], batch_size=4, seed=1, shuffle=False)
    ((batch, _),) = taken(rows)
    assert batch.labels.tolist() == [[1], [0]]


def test_csv_without_a_needed_column(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("label,user,price\n1,u,2.5\n")
    with pytest.raises(DataError, match=r"'.*/a'.*tags"):
        taken(dataset([tmp_path / "a"], "csv", tmp_path))


def test_csv_header_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfe\x00\n1,2\n")
    with pytest.raises(DataError, match=r"'.*/a' has no CSV header that can be read"):
        taken(dataset([tmp_path / "a"], "csv", tmp_path))


def test_parquet_columns_agree_with_csv(tmp_path: Path) -> None:
    paths = {kind: write(tmp_path, kind, 120) for kind in ("csv", "parquet", "custom")}
    runs = [plain(taken(dataset([path], kind, tmp_path))) for kind, path in paths.items()]
    assert runs[0] == runs[1] == runs[2]
    assert len(records(120)) == 120


def test_parquet_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"not a parquet file")
    with pytest.raises(DataError, match=r"'.*/a' cannot be read as Parquet"):
        taken(dataset([tmp_path / "a"], "parquet", tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_empty_files_among_others(kind: str, tmp_path: Path) -> None:
    full = write(tmp_path, kind, 20)
    (tmp_path / "empty").touch()
    data = dataset([tmp_path / "empty", full, tmp_path / "empty"], kind, tmp_path)
    assert [len(batch) for batch, _ in data.batches(epoch=0)] == [16, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_at_all(kind: str, tmp_path: Path) -> None:
    write(tmp_path, kind, 1)
    (tmp_path / "empty").touch()
    with pytest.raises(DataError, match=r"no rows in the data: .*empty \(1 files, all empty\)"):
        taken(dataset([tmp_path / "empty"], kind, tmp_path))


def test_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "_LONGEST_LINE", 1 << 20)
    (tmp_path / "a").write_bytes(b"0\n" + bytes(3 << 20))
    with pytest.raises(DataError, match=r"'.*/a' has a line of more than 1 MiB at byte 2: is this a text file"):
        taken(dataset([tmp_path / "a"], "criteo", tmp_path, block_bytes=1 << 20, max_bad_rows=5))


def test_truncated_file_gives_the_rows_before_and_then_the_error(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(criteo(2000))[:-100])
    seen = []
    with pytest.raises(DataError, match=r"a\.gz' is truncated"):
        for batch, _ in dataset([tmp_path], "criteo", tmp_path, shuffle_rows=64, block_bytes=4096).batches(epoch=0):
            seen.append(len(batch))
    assert 0 < sum(seen) < 2000


@pytest.mark.parametrize("way", ["break", "error", "close"])
def test_stopping_early_leaves_no_threads(way: str, tmp_path: Path) -> None:
    path = write(tmp_path, "criteo", 3000)
    data = dataset([path], "criteo", tmp_path, shuffle_rows=64, threads=3, block_bytes=4096)

    def read() -> None:
        batches = data.batches(epoch=0)
        for _ in batches:
            if way == "error":
                raise KeyboardInterrupt
            if way == "close":
                batches.close()
            break

    before = threading.enumerate()
    if way == "error":
        with pytest.raises(KeyboardInterrupt):
            read()
    else:
        read()
    assert threading.enumerate() == before


@pytest.mark.heavy
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    block = criteo(2000)

    def peak(times: int) -> int:
        """In a process of its own: the peak of this one would be that of all tests before."""
        path = tmp_path / f"{times}"
        with path.open("wb") as file:
            for _ in range(times):
                file.write(block)
        program = (
            "import resource; from pathlib import Path; from support.data.click_logs import dataset;"
            "options = dict(shuffle_rows=10_000, batch_size=1000, block_bytes=1 << 18)\n"
            f"data = dataset(['{path}'], 'criteo', Path('.'), **options)\n"
            f"assert sum(len(batch) for batch, _ in data.batches(epoch=0)) == {2000 * times};"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", program]
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return int(run.stdout)

    # Twelve times as much, 60 MB of text and 90 MB of rows, within a window's worth of the same peak.
    assert peak(120) - peak(10) < 8_000


def test_report_counts_missing_values(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("label,user,tags,price\n1,u,,\n0,,x,\n1,u,x,2\n")
    data = dataset([tmp_path / "a"], "csv", tmp_path)
    assert data.report.rows == 0
    taken(data)
    report = data.report
    assert (report.rows, report.bad, report.examples) == (3, 0, ())
    assert report.missing_slots == {"user": 1, "tags": 1}
    assert report.missing_dense == {"price": 2}
