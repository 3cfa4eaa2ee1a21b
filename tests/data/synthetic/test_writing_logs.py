"""A synthetic log is written whole or not at all, in order, with the same bytes for the same seed."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from clickline.data.synthetic import write_criteo
from clickline.data.synthetic.log_writer import write
from clickline.errors import DataError

ROWS = 20_000  # three blocks, the last one not full


def files_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path: Path, kind: Any, monkeypatch: Any) -> None:
    written = {}
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)  # the job and the truth name files as they were named
        kind.write(Path("log" + kind.suffix), rows=ROWS, seed=seed, test_rows=5000, **kind.options)
        written[name] = files_in(tmp_path / name)
    assert list(written["one"]) == sorted(
        ["log.job.yaml", "log.json", f"log.train{kind.suffix}", f"log.test{kind.suffix}"]
    )
    assert written["one"] == written["same"]
    for part in ("train", "test"):
        assert written["one"][f"log.{part}{kind.suffix}"] != written["other"][f"log.{part}{kind.suffix}"]


def test_a_block_made_alone_is_the_one_that_was_streamed(tmp_path: Path, kind: Any) -> None:
    kind.write(tmp_path / "log", rows=ROWS, seed=3, **kind.options)
    log = kind.log(rows=ROWS, seed=3)
    blocks = {number: log.text(log.block(number))[0] for number in (2, 0, 1)}
    whole = (tmp_path / f"log.train{kind.suffix}").read_bytes()
    assert whole == log.header + b"".join(blocks[number] for number in range(3))
    assert kind.log(rows=ROWS, seed=3).text(log.block(2))[0] == blocks[2]


def test_parts_and_test_are_the_whole_in_order_of_time(tmp_path: Path, kind: Any) -> None:
    kind.write(tmp_path / "whole", rows=ROWS, seed=3, **kind.options)
    facts = kind.write(tmp_path / "parts", rows=ROWS, seed=3, test_rows=3001, files=3, **kind.options)
    header = kind.log(rows=ROWS, seed=3).header
    lines: list[bytes] = []
    counts = []
    for name in ("train-00", "train-01", "train-02", "test"):
        data = (tmp_path / f"parts.{name}{kind.suffix}").read_bytes()
        assert data.startswith(header)
        found = data[len(header) :].splitlines(keepends=True)
        counts.append(len(found))
        lines += found
    assert counts == [5666, 5666, 5667, 3001]
    assert header + b"".join(lines) == (tmp_path / f"whole.train{kind.suffix}").read_bytes()
    assert (facts["train"]["rows"], facts["test"]["rows"]) == (16_999, 3001)


@pytest.mark.parametrize(("compress", "ending"), [("gzip", ".gz"), ("zstd", ".zst")])
def test_compressed_files_hold_the_same(tmp_path: Path, kind: Any, compress: str, ending: str) -> None:
    kind.write(tmp_path / "plain", rows=9000, seed=3, test_rows=100, **kind.options)
    for name in ("packed", "again"):
        kind.write(tmp_path / name, rows=9000, seed=3, test_rows=100, compress=compress, **kind.options)
    for part in ("train", "test"):
        packed = tmp_path / f"packed.{part}{kind.suffix}{ending}"
        assert packed.read_bytes() == (tmp_path / f"again.{part}{kind.suffix}{ending}").read_bytes()
        plain = (tmp_path / f"plain.{part}{kind.suffix}").read_bytes()
        assert packed.stat().st_size < len(plain)
        if compress == "gzip":
            assert gzip.decompress(packed.read_bytes()) == plain
        else:
            with pa.input_stream(str(packed), compression="zstd") as stream:
                assert stream.read() == plain


def test_nothing_is_overwritten_unless_forced(tmp_path: Path, kind: Any) -> None:
    kind.write(tmp_path / "log", rows=100, seed=3, **kind.options)
    before = files_in(tmp_path)
    with pytest.raises(DataError, match=r"there already is .*log\.train.*--force"):
        kind.write(tmp_path / "log", rows=100, seed=4, **kind.options)
    assert files_in(tmp_path) == before
    kind.write(tmp_path / "log", rows=100, seed=4, force=True, **kind.options)
    assert files_in(tmp_path) != before


@pytest.mark.parametrize("compress", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_interrupted_writing_leaves_nothing(
    tmp_path: Path, kind: Any, compress: Any, error: type[BaseException]
) -> None:
    def stop(done: int) -> None:
        seen.append(sorted(path.name for path in tmp_path.iterdir()))
        if done == ROWS:
            raise error

    seen: list[list[str]] = []
    with pytest.raises(error):
        write(kind.log(rows=ROWS, seed=3), tmp_path / "log", test_rows=5000, compress=compress, progress=stop)
    assert seen[0]
    assert all(name.endswith(".unfinished") for name in seen[-1])
    assert list(tmp_path.iterdir()) == []


def test_interrupted_overwriting_keeps_what_was_there(tmp_path: Path) -> None:
    def stop(done: int) -> None:
        raise KeyboardInterrupt

    write_criteo(tmp_path / "log", rows=100, seed=3, ids=30_000)
    before = files_in(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        write_criteo(tmp_path / "log", rows=100, seed=4, ids=30_000, force=True, progress=stop)
    assert files_in(tmp_path) == before


def test_a_directory_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="file"):
        write_criteo(tmp_path / "file" / "log.tsv", rows=100, seed=3, ids=30_000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "rows is 0"),
        ({"test_rows": 100}, "test_rows is 100 of 100"),
        ({"test_rows": -1}, "test_rows is -1"),
        ({"files": 0}, "files is 0"),
        ({"files": 91, "test_rows": 10}, "90 rows to train on fit into 1 to 90 files"),
        ({"compress": "lzma"}, "compress is 'lzma'.*none, gzip, zstd"),
        ({"ids": 100}, "ids is 100"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        write_criteo(tmp_path / "log", **({"rows": 100, "seed": 3, "ids": 30_000} | options))
    assert list(tmp_path.iterdir()) == []
