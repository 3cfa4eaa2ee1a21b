"""Pieces together are the whole data, each row once, and a piece can be gone on with after any batch of it."""

from __future__ import annotations

import gc
import gzip
import itertools
import random
import tempfile
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.batch import Batch
from clickline.data.dataset import Dataset
from clickline.data.leasing import pieces as module
from clickline.data.leasing.pieces import Piece, PieceReader, open_piece, piece_batches, split_into_pieces
from clickline.data.schema import Schema
from clickline.errors import DataError
from support.data.click_logs import COLUMNS, criteo, setting, write
from support.eventually import eventually

KINDS = ["criteo", "gz", "csv", "parquet", "custom"]
SHUFFLED = {"epoch": 2, "seed": 7, "batch_size": 16, "shuffle": True}


class Log:
    """Some files and how to read them."""

    def __init__(self, data: Data, features: Features, paths: list[Path]) -> None:
        self.data, self.schema = data, Schema.of(data, features)
        self.paths = [str(path) for path in paths]

    def cut(self, piece_bytes: int, *, trainers: int = 2) -> list[Piece]:
        return split_into_pieces(self.data, self.paths, piece_bytes=piece_bytes, trainers=trainers)

    def read(self, piece: Piece, **more: Any) -> list[tuple[Batch, int]]:
        return list(piece_batches(self.data, self.schema, piece, paths=self.paths, **SHUFFLED | more))

    def opened(self, piece: Piece, **more: Any) -> PieceReader:
        return open_piece(self.data, self.schema, piece, paths=self.paths, **SHUFFLED | more)

    def whole(self) -> list[bytes]:
        read = Dataset(
            data=self.data, schema=self.schema, paths=self.paths, batch_size=16, seed=0, shuffle=False
        ).batches(epoch=0)
        return [row for batch, _ in read for row in rows_of(batch)]


def log(directory: Path, kind: str, rows: tuple[int, ...] = (120, 1, 70), **more: Any) -> Log:
    data, features = setting(kind, directory, **more)
    return Log(data, features, [write(directory, kind, count, seed=count) for count in rows])


def rows_of(batch: Batch) -> list[bytes]:
    """Each row as bytes that can be compared."""
    parts = [batch.part(row, row + 1) for row in range(len(batch))]
    return [
        b"|".join((part.labels.tobytes(), part.dense.tobytes(), part.keys.tobytes(), _bytes(part.offsets)))
        for part in parts
    ]


def _bytes(offsets: np.ndarray[Any, Any] | None) -> bytes:
    return b"" if offsets is None else offsets.tobytes()


def flat(read: list[tuple[Batch, int]]) -> list[bytes]:
    return [row for batch, _ in read for row in rows_of(batch)]


# Awkward text: line ends of both kinds, blank lines, long lines, quotes, bytes that are no text at all.
good = st.integers(0, 99).map(lambda user: b"1,u%d,a;b,%d" % (user, user))
quoted = st.integers(0, 99).map(lambda user: b'0,"u,""%d""",x,' % user)
long = st.integers(1, 9000).map(lambda size: b"1," + b"u" * size + b",x,1")
lines = st.one_of(
    good, good, quoted, long, st.just(b""), st.just(b"   "), st.binary(max_size=8), st.just(b'0,"open,x,1')
)
ends = st.sampled_from([b"\n", b"\n", b"\r\n"])
texts = st.tuples(st.lists(st.tuples(lines, ends), max_size=30), st.booleans()).map(
    lambda drawn: b"".join(line + end for line, end in drawn[0])[: None if drawn[1] else -1]
)
compressions = st.sampled_from(
    [bytes, bytes, bytes, gzip.compress, lambda text: pa.compress(text, codec="zstd", asbytes=True)]
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(files=st.lists(st.tuples(texts, compressions), min_size=1, max_size=3), size=st.integers(1, 4000), header=...)
@example(files=[(b"1,u,x,2\n" * 3, bytes)], size=8, header=False)
@example(files=[(b"1,u,x,2\n" * 3, bytes)], size=1, header=True)
@example(files=[(b"\n\n1,u,x,2\r\n\r\n1,u,x,3", bytes)], size=2, header=True)
def test_every_row_once(files: list[tuple[bytes, Any]], size: int, header: bool) -> None:
    columns = {} if header else {"labels": ["0"], "slots": ["1", {"name": "2", "separator": ";"}], "dense": ["3"]}
    features = Features.model_validate(columns) if columns else COLUMNS
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for number, (content, compress) in enumerate(files):
            paths.append(Path(directory, str(number)))
            paths[-1].write_bytes(compress((b"label,user,tags,price\r\n" if header else b"0,u,x,1\n") + content))
        text = Log(Data(format="csv", header=header, max_bad_rows=1e9, block_bytes=4096), features, paths)
        pieces = text.cut(max(size, sum(path.stat().st_size for path in paths) // 50))
        try:
            wanted = text.whole()
        except DataError as error:
            assert "no rows" in str(error)
            wanted = []
        # In the order of the log, the pieces one after another are the log.
        assert [row for piece in pieces for row in flat(text.read(piece, shuffle=False))] == wanted
        assert Counter(row for piece in pieces for row in flat(text.read(piece))) == Counter(wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 700, 5000, 1 << 20])
def test_every_row_once_in_every_format(kind: str, size: int, tmp_path: Path) -> None:
    data = log(tmp_path, kind, block_bytes=4096)
    pieces = data.cut(max(size, 100))
    assert [piece.number for piece in pieces] == list(range(len(pieces)))
    assert [row for piece in pieces for row in flat(data.read(piece, shuffle=False))] == data.whole()
    if size == 700:
        assert len(pieces) > 3 or kind in ("gz", "custom")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shuffle", [True, False])
def test_going_on_after_every_batch(kind: str, shuffle: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clickline.data.shuffling._UNSHUFFLED_ROWS", 48)
    data = log(tmp_path, kind, shuffle_rows=40)
    again = log(tmp_path, kind, shuffle_rows=40, block_bytes=4096, threads=3)
    for piece in data.cut(9000):
        whole = data.read(piece, shuffle=shuffle)
        assert all(len(batch) == 16 for batch, _ in whole[:-1])
        assert [done for _, done in whole] == list(itertools.accumulate(len(batch) for batch, _ in whole))
        for number, (_, done) in enumerate(whole, 1):
            rest = again.read(piece, shuffle=shuffle, skip=done)
            assert [count for _, count in rest] == [count for _, count in whole[number:]]
            assert flat(rest) == flat(whole[number:])


def test_order_follows_from_seed_epoch_and_piece_only(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(criteo(60) * 2)
    size = len(criteo(60))
    data = Log(*setting("criteo", tmp_path), [tmp_path / "a"])
    first, second = data.cut(size)
    order = flat(data.read(first))
    assert sorted(order) == sorted(flat(data.read(second)))
    assert order != flat(data.read(second))
    assert order != flat(data.read(first, epoch=3))
    assert order != flat(data.read(first, seed=8))
    assert order == flat(data.read(first))
    (tmp_path / "b").write_bytes(criteo(60))
    alone = Log(*setting("criteo", tmp_path), [tmp_path / "b"])
    assert order == flat(alone.read(*alone.cut(size)))


def test_lines_belong_to_the_piece_in_which_they_start(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("0,u,x,1\n1,u,x,2\n0,u,x,3\n1,u,x,4")
    data = Log(Data(format="csv", header=False), NUMBERED, [tmp_path / "a"])

    def prices(begin: int, end: int | None) -> list[float]:
        piece = Piece(number=0, file=0, path=str(tmp_path / "a"), begin=begin, end=end)
        read = data.read(piece, shuffle=False)
        return [price for batch, _ in read for price in np.expm1(batch.dense[:, 0]).round().tolist()]

    assert prices(0, 1) == [1]
    assert prices(0, 8) == [1]
    assert prices(0, 9) == [1, 2]
    assert prices(1, 8) == []
    assert prices(1, 9) == [2]
    assert prices(8, 16) == [2]
    assert prices(8, None) == [2, 3, 4]
    assert prices(25, 31) == []
    assert prices(31, None) == []


NUMBERED = Features.model_validate({"labels": ["0"], "slots": ["1", {"name": "2", "separator": ";"}], "dense": ["3"]})


def test_sizes_of_pieces(tmp_path: Path) -> None:
    for name, size in (("a", 1000), ("b", 0), ("c", 100), ("d", 101)):
        (tmp_path / name).write_bytes(b"x" * size)
    data = Log(Data(), Features(), [tmp_path])
    found = [(piece.file, piece.begin, piece.end) for piece in data.cut(100)]
    assert found[:3] == [(0, 0, 100), (0, 100, 200), (0, 200, 300)]
    assert found[9:] == [(0, 900, None), (2, 0, None), (3, 0, 50), (3, 50, None)]
    assert data.cut(100) == data.cut(100, trainers=5)
    assert [Path(piece.path).name for piece in data.cut(1 << 20)] == ["a", "c", "d"]


@pytest.mark.parametrize(("trainers", "pieces"), [(1, 8), (2, 16), (4, 21), (100, 21)])
def test_sizes_left_open(trainers: int, pieces: int, tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate((20 << 20) + 5)
    data = Log(Data(), Features(), [tmp_path / "a"])
    assert len(data.cut(0, trainers=trainers)) == pieces


def test_largest_size_left_open(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 30)
    assert len(Log(Data(), Features(), [tmp_path / "a"]).cut(0, trainers=1)) == 16


def test_nothing_to_cut(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(DataError, match=r"there are no rows in the data: .*/a \(1 files, all empty\)"):
        Log(Data(), Features(), [tmp_path / "a"]).cut(0)
    with pytest.raises(ValueError, match=r"'piece_bytes' must be at least 0 but got -1"):
        Log(Data(), Features(), [tmp_path / "a"]).cut(-1)
    with pytest.raises(ValueError, match=r"'trainers' must be at least 1 but got 0"):
        Log(Data(), Features(), [tmp_path / "a"]).cut(0, trainers=0)


def bad_log(directory: Path, *, bad: list[int], **more: Any) -> Log:
    lines = criteo(400).splitlines(keepends=True)
    for number in bad:
        lines[number] = b"nonsense\n"
    (directory / "a").write_bytes(b"".join(lines))
    return Log(*setting("criteo", directory, block_bytes=4096, **more), [directory / "a"])


def test_share_of_bad_rows_is_that_of_the_piece(tmp_path: Path) -> None:
    data = bad_log(tmp_path, bad=[300, 303, 305], max_bad_rows=0.01)
    first, second = data.cut((tmp_path / "a").stat().st_size // 2 + 1)
    done = len(flat(data.read(first)))
    lines = (tmp_path / "a").read_bytes().splitlines(keepends=True)
    origin = len(b"".join(lines[:done]))
    with pytest.raises(DataError) as caught:
        data.read(second)
    message = str(caught.value)
    assert message.startswith(
        f"3 of {400 - done} rows are malformed, more than data.max_bad_rows allows (1.0000% of the rows):\n"
        f"  {data.paths[0]}, line {301 - done} from byte {origin} on: "
    )
    assert (tmp_path / "a").read_bytes()[origin:].splitlines()[301 - done - 1] == b"nonsense"


def test_bad_rows_are_counted_though_they_were_skipped(tmp_path: Path) -> None:
    data = bad_log(tmp_path, bad=[5], max_bad_rows=3, shuffle_rows=32)
    (piece,) = data.cut(1 << 20)
    with closing(data.opened(piece, skip=96)) as reading:
        assert len(list(reading)) == 19
        assert (reading.report.rows, reading.report.bad) == (399, 1)
        assert [str(row).partition(": ")[0] for row in reading.report.examples] == [f"{data.paths[0]}, line 6"]


def test_started_early_it_reads_ahead_and_stops_when_closed(tmp_path: Path) -> None:
    data = log(tmp_path, "criteo")
    reading = data.opened(data.cut(0)[0])
    assert reading_threads() == 0
    reading.start()
    reading.start()
    eventually(lambda: reading.report.rows == 120)
    batch, done = next(reading)
    assert (len(batch), done) == (16, 16)
    reading.close()
    reading.close()
    assert reading_threads() == 0
    assert next(reading, None) is None


def test_never_started_never_opened(tmp_path: Path) -> None:
    data = log(tmp_path, "criteo")
    piece = data.cut(0)[0]
    Path(piece.path).unlink()
    reading = data.opened(piece)
    reading.close()
    assert next(reading, None) is None
    assert reading_threads() == 0
    with pytest.raises(DataError, match=r"No such file|not there"):
        data.read(piece)


def test_leaving_the_loop_stops_the_threads(tmp_path: Path) -> None:
    data = log(tmp_path, "csv")
    batches = piece_batches(data.data, data.schema, data.cut(0)[0], paths=data.paths, **SHUFFLED)
    assert reading_threads() == 0
    next(batches)
    batches.close()
    assert reading_threads() == 0


def test_forgotten_one_stops_by_itself(tmp_path: Path) -> None:
    data = log(tmp_path, "criteo", shuffle_rows=16)
    reading = data.opened(data.cut(0)[0])
    next(reading)
    assert reading_threads() > 0
    del reading
    gc.collect()
    assert reading_threads() == 0


def reading_threads() -> int:
    return sum(thread.name.startswith("clickline-") for thread in threading.enumerate())


def test_files_are_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = log(tmp_path, "criteo")
    data.paths = [str(tmp_path)]
    pieces = data.cut(5000)
    calls: list[object] = []
    find = module.find
    monkeypatch.setattr(module, "find", lambda *args, **more: calls.append(args) or find(*args, **more))
    for piece in pieces:
        data.read(piece)
    assert len(calls) == 1


def test_data_may_be_elsewhere_but_must_be_the_same(tmp_path: Path) -> None:
    data = log(tmp_path, "criteo")
    piece = data.cut(0)[2]
    wanted = flat(data.read(piece))
    (tmp_path / "elsewhere").mkdir()
    data.paths = [str(Path(path).rename(tmp_path / "elsewhere" / Path(path).name)) for path in data.paths]
    assert flat(data.read(piece)) == wanted
    data.paths.pop(0)
    with pytest.raises(DataError, match=r"'.*criteo-70-70', file number 3, but that is now 'nothing'"):
        data.read(piece)


@pytest.mark.parametrize(("kind", "message"), [("criteo", "has only 5 bytes"), ("parquet", "has only 1 row groups")])
def test_file_that_has_shrunk(kind: str, message: str, tmp_path: Path) -> None:
    data = log(tmp_path, kind, rows=(120,))
    last = data.cut(2000)[-1]
    if kind == "criteo":
        Path(last.path).write_text("short")
    else:
        write(tmp_path, kind, 3).rename(last.path)
    with pytest.raises(DataError, match=message):
        data.read(last)


def test_more_rows_skipped_than_there_are(tmp_path: Path) -> None:
    data = log(tmp_path, "criteo")
    piece = data.cut(0)[0]
    assert data.read(piece, skip=120) == []
    with pytest.raises(DataError, match=r"criteo-120-120' has fewer rows than when reading stopped"):
        data.read(piece, skip=121)
    with pytest.raises(ValueError, match=r"'skip' must be at least 0 but got -1"):
        data.read(piece, skip=-1)
    with pytest.raises(ValueError, match=r"'batch_size' must be at least 1 but got 0"):
        data.read(piece, batch_size=0)


def test_parts_of_a_file_that_cannot_be_entered(tmp_path: Path) -> None:
    data = log(tmp_path, "custom")
    with pytest.raises(
        ValueError, match=r"format '.*:Pipes' is read file by file, but the span \(5, None\) was asked for"
    ):
        data.read(Piece(number=0, file=0, path=data.paths[0], begin=5, end=None))


def test_very_long_lines_cost_only_their_own_piece(tmp_path: Path) -> None:
    rng = random.Random(5)
    users = ["u" * size for size in (10, 300_000, 5, 2_000_000, 7)]
    (tmp_path / "a").write_text("label,user,tags,price\n" + "".join(f"{rng.randrange(2)},{u},x,1\n" for u in users))
    data = Log(Data(format="csv", block_bytes=4096), COLUMNS, [tmp_path / "a"])
    counts = [len(flat(data.read(piece))) for piece in data.cut(100_000)]
    assert sum(counts) == 5
    assert counts.count(0) == len(counts) - np.count_nonzero(counts) > 15
