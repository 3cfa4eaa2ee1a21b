"""Table files: what is loaded is what was saved, and training goes on as if it had never stopped."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickline._native import Table, bucket_of, xxh64
from clickline.errors import CheckpointError

POLICIES = [(1, 1.0, 0, 0.0, 0.1, 1.0), (4, 0.7, 50, 0.0, 0.1, 1.0)]
OPTIMIZERS = ["sgd", "adagrad", "adam", "adamw", "ftrl"]


def table(optimizer: str = "adam", dim: int = 5, seed: int = 2**64 - 1) -> Table:
    return Table(dim=dim, optimizer=optimizer, seed=seed, policies=POLICIES)


def train(target: Table, push: Any, *, ticks: range) -> None:
    for tick in ticks:
        random = np.random.default_rng(tick)
        for slot in (0, 1):
            keys = np.unique(random.integers(0, 3000, 800, dtype=np.uint64) * 2 + slot)
            push(target, keys, random.normal(0, 1, (len(keys), target.dim)), slot=slot, tick=tick)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_going_on_after_a_load_is_as_if_never_stopped(optimizer: str, push: Any, tmp_path: Path) -> None:
    straight, stopped, resumed = (table(optimizer) for _ in range(3))
    train(straight, push, ticks=range(12))
    train(stopped, push, ticks=range(5))
    assert stopped.memory()["waiting"] > 0
    stopped.save(tmp_path / "half")
    resumed.load(tmp_path / "half")
    assert resumed.step == stopped.step
    train(resumed, push, ticks=range(5, 12))
    straight.save(tmp_path / "straight")
    resumed.save(tmp_path / "resumed")
    assert (tmp_path / "straight").read_bytes() == (tmp_path / "resumed").read_bytes()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_rows_get_back_the_values_of_a_file_and_no_others_change(optimizer: str, push: Any, tmp_path: Path) -> None:
    trained = table(optimizer)
    train(trained, push, ticks=range(5))
    known = trained.keys()
    given = trained.rows(known), trained.states(known)
    trained.save(tmp_path / "given")
    push(trained, np.arange(10_000, 10_400, dtype=np.uint64), np.ones((400, 5)), slot=0, tick=6)
    train(trained, push, ticks=range(5, 9))
    new = np.setdiff1d(trained.keys(), known)
    before = trained.rows(new), trained.counts(known), trained.last_seen(known)
    assert len(new) > 300
    trained.restore(tmp_path / "given", 0, 2000)
    trained.restore(tmp_path / "given", 2000, 4096)
    assert trained.rows(known).tobytes() == given[0].tobytes()
    assert trained.states(known).tobytes() == given[1].tobytes()
    for seen, was in zip((trained.rows(new), trained.counts(known), trained.last_seen(known)), before, strict=True):
        assert seen.tobytes() == was.tobytes()


def test_a_row_that_is_gone_does_not_come_back_from_a_file(push: Any, tmp_path: Path) -> None:
    trained = table()
    push(trained, np.arange(0, 200, 2, dtype=np.uint64) + np.uint64(1), np.ones((100, 5)), slot=1, tick=1)
    trained.save(tmp_path / "given")
    empty = table()
    empty.restore(tmp_path / "given")
    assert len(empty) == 0
    damaged = bytearray((tmp_path / "given").read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    with pytest.raises(CheckpointError, match="checksum"):
        trained.restore(tmp_path / "damaged")


def test_the_same_rows_give_the_same_bytes_whatever_their_order(push: Any, tmp_path: Path) -> None:
    keys = np.random.default_rng(0).integers(0, 2**64, 3000, dtype=np.uint64)
    for name, order in (("up", keys), ("down", keys[::-1])):
        written = table()
        push(written, order, threads=2)
        written.save(tmp_path / name)
    assert (tmp_path / "up").read_bytes() == (tmp_path / "down").read_bytes()


def test_an_empty_table_comes_back_empty(tmp_path: Path) -> None:
    table().save(tmp_path / "empty")
    copy = table()
    copy.load(tmp_path / "empty")
    assert (len(copy), copy.step) == (0, 0)


def test_ranges_of_buckets_add_up(push: Any, tmp_path: Path) -> None:
    whole, pieced, part = table(), table(), table()
    train(whole, push, ticks=range(6))
    whole.save(tmp_path / "whole")
    for first, last in ((100, 1000), (0, 100), (1000, 1001), (1001, 4096), (7, 7)):
        pieced.load(tmp_path / "whole", first, last)
    pieced.save(tmp_path / "pieced")
    assert (tmp_path / "pieced").read_bytes() == (tmp_path / "whole").read_bytes()
    part.load(tmp_path / "whole", first_bucket=1000, last_bucket=3000)
    assert part.keys().tolist() == [key for key in whole.keys().tolist() if 1000 <= bucket_of(key) < 3000]
    with pytest.raises(CheckpointError, match=r"bucket \d+ holds keys already"):
        part.load(tmp_path / "whole", 2999, 4096)
    with pytest.raises(ValueError, match="0 <= first <= last <= 4096 but got 5 and 4"):
        part.load(tmp_path / "whole", 5, 4)


def test_a_file_of_another_table_is_refused(push: Any, tmp_path: Path) -> None:
    table().save(tmp_path / "file")
    for other, message in [
        (table(dim=6), "saved with dim 5 but the table has dim 6"),
        (table("ftrl"), "saved with optimizer adam but the table has optimizer ftrl"),
        (table(seed=3), "saved with seed 18446744073709551615 but the table has seed 3"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            other.load(tmp_path / "file")


def test_files_that_cannot_be_opened_say_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: cannot be opened: No such file"):
        table().load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="cannot be opened"):
        table().save(tmp_path / "no" / "folder")
    with pytest.raises(CheckpointError, match="not a regular file"):
        table().load(tmp_path)


def test_a_full_disk_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    program = """
import resource, sys
import numpy as np
from clickline._native import Table
from clickline.errors import CheckpointError
table = Table(dim=16)
n = 5000
table.push(np.arange(n, dtype=np.uint64), np.ones((n, 16), np.float32), np.ones(n, np.float32),
           np.zeros(n, np.float32), np.zeros(n, np.uint16), tick=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    table.save(sys.argv[1])
except CheckpointError as error:
    print(error)
"""
    path = tmp_path / "file"
    done = subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True, text=True)
    assert "cannot be written: File too large" in done.stdout
    assert not path.exists()


def test_a_reader_made_from_the_specification_finds_the_rows(push: Any, tmp_path: Path) -> None:
    written = table(dim=3)
    train(written, push, ticks=range(4))
    written.save(tmp_path / "file")
    data = (tmp_path / "file").read_bytes()
    magic, version, zero, length, checksum = struct.unpack("<8sIIQQ", data[:32])
    assert (magic, version, zero, (32 + length) % 64) == (b"CLKTABLE", 1, 0, 0)
    assert xxh64(data[32 : 32 + length]) == checksum
    header = json.loads(data[32 : 32 + length])
    rows, waiting, at = header["rows"], header["waiting"], 32 + length
    columns = {}
    for name, kind, count, width in [
        ("keys", "<u8", rows, 1), ("waiting_keys", "<u8", waiting, 1), ("counts", "<f4", rows, 2),
        ("last_seen", "<u4", rows, 1), ("weights", "<f4", rows, 3), ("state", "<f4", rows, 6),
        ("waiting_last_seen", "<u4", waiting, 1), ("slots", "<u2", rows, 1), ("waiting_slots", "<u2", waiting, 1),
        ("sightings", "<u2", waiting, 1),
    ]:  # fmt: skip
        columns[name] = np.frombuffer(data, kind, count * width, at).reshape(count, width)
        at += columns[name].nbytes
    assert at == len(data)
    keys = np.ascontiguousarray(columns["keys"][:, 0])
    assert (keys == written.keys()).all()
    assert (columns["counts"] == written.counts(keys)).all()
    assert (columns["last_seen"][:, 0] == written.last_seen(keys)).all()
    assert (columns["weights"] == written.rows(keys)).all()
    assert (columns["state"] == written.states(keys)).all()
    assert (columns["slots"][:, 0] == keys % 2).all()
    assert (columns["waiting_slots"] == 1).all()
    assert columns["sightings"].min() >= 1
    bucket, begin = bucket_of(int(keys[0])), 0
    assert header["bucket_rows"][bucket] == sum(bucket_of(int(key)) == bucket for key in keys)
    checksum = 0
    for name, column in columns.items():
        per_bucket = header["bucket_waiting" if "waiting" in name or name == "sightings" else "bucket_rows"]
        begin = sum(per_bucket[:bucket])
        checksum = xxh64(column[begin : begin + per_bucket[bucket]].tobytes(), checksum)
    assert header["checksums"][bucket] == f"{checksum:016x}"
