"""Going on from a position gives exactly the batches that would have followed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clickline.data import shuffling
from clickline.data.position import Position
from clickline.data.sources import column_blocks, custom_reader_tables
from clickline.errors import CheckpointError, DataError
from support.data.click_logs import criteo, dataset, plain, taken, write


def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several record batches in a file of a few rows."""
    for module in (custom_reader_tables, column_blocks):
        monkeypatch.setattr(module, "ROWS_PER_TABLE", 20)


KINDS = ["criteo", "gz", "csv", "parquet", "custom"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shuffle", [True, False])
def test_from_every_batch(kind: str, shuffle: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffling, "_UNSHUFFLED_ROWS", 48)
    small_tables(monkeypatch)
    paths = [write(tmp_path, kind, rows, seed=rows) for rows in (70, 1, 120)]

    def opened(**more: int):
        return dataset(paths, kind, tmp_path, shuffle=shuffle, shuffle_rows=48, **more)

    whole = taken(opened(block_bytes=4096), epoch=3)
    wanted = plain(whole)
    assert len(wanted) == 12
    for number, (_, position) in enumerate(whole, 1):
        stored = Position.from_dict(json.loads(json.dumps(position.to_dict())))
        assert stored == position
        data = opened(block_bytes=1 << 20, threads=2)
        rest = taken(data, epoch=3, start=stored)
        assert plain(rest) == wanted[number:]
        assert data.report.rows == 191
        for _, again in rest[:1]:
            assert plain(taken(opened(), epoch=3, start=again)) == wanted[number + 1 :]


def test_bad_rows_are_counted_once_and_keep_their_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a"
    lines = criteo(100).splitlines(keepends=True)
    lines[10] = lines[55] = lines[90] = b"broken\n"
    path.write_bytes(b"".join(lines))

    def opened():
        return dataset([path], "criteo", tmp_path, shuffle_rows=32, block_bytes=4096, max_bad_rows=5)

    data = opened()
    whole = taken(data)
    report = data.report
    assert [row.line for row in report.examples] == [11, 56, 91]
    for number, (_, position) in enumerate(whole, 1):
        data = opened()
        assert plain(taken(data, start=position)) == plain(whole)[number:]
        assert (data.report.rows, data.report.bad) == (97, 3)
        assert data.report.missing_slots == report.missing_slots
        assert data.report.missing_dense == report.missing_dense
        assert {row.line for row in data.report.examples} <= {11, 56, 91}


def test_settings_that_change_on_the_way_lose_no_row(tmp_path: Path) -> None:
    path = write(tmp_path, "criteo", 300)
    whole = taken(dataset([path], "criteo", tmp_path, shuffle_rows=96))
    start = whole[7][1]
    rest = taken(dataset([path], "criteo", tmp_path, shuffle_rows=32, batch_size=8, seed=99), start=start)
    rows = [row.tobytes() for batch, _ in whole[:8] + rest for row in batch.dense]
    everything = [row.tobytes() for batch, _ in whole for row in batch.dense]
    assert len(set(everything)) == 300
    assert sorted(rows) == sorted(everything)


def test_another_epoch_is_refused(tmp_path: Path) -> None:
    data = dataset([write(tmp_path, "criteo", 40)], "criteo", tmp_path)
    (_, position), *_ = taken(data, epoch=1)
    with pytest.raises(ValueError, match=r"position in epoch 2 but is in epoch 1"):
        taken(data, epoch=2, start=position)


def position_in_second_file(tmp_path: Path, kind: str = "criteo") -> tuple[list[Path], Position]:
    paths = [write(tmp_path, kind, rows, seed=rows) for rows in (16, 100)]
    return paths, taken(dataset(paths, kind, tmp_path, shuffle_rows=16, block_bytes=4096))[4][1]


def test_data_may_have_moved(tmp_path: Path) -> None:
    paths, position = position_in_second_file(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    moved = [path.rename(tmp_path / "elsewhere" / path.name) for path in paths]
    assert len(taken(dataset(moved, "criteo", tmp_path, shuffle_rows=16), start=position)) == 3


def test_other_files_than_before(tmp_path: Path) -> None:
    paths, position = position_in_second_file(tmp_path)
    with pytest.raises(
        DataError, match=r"should resume in '.*criteo-100-100', file number 2, but that is now '.*-16-16'"
    ):
        taken(dataset(paths[::-1], "criteo", tmp_path), start=position)
    with pytest.raises(DataError, match=r"but that is now 'nothing'"):
        taken(dataset(paths[:1], "criteo", tmp_path), start=position)


@pytest.mark.parametrize("kind", ["criteo", "parquet", "custom"])
def test_file_that_has_shrunk(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_tables(monkeypatch)
    paths, position = position_in_second_file(tmp_path, kind)
    write(tmp_path, kind, 3, seed=3).rename(paths[1])
    with pytest.raises(DataError, match=r"has only \d+ (bytes|rows), but reading should resume at \d+: it has changed"):
        taken(dataset(paths, kind, tmp_path), start=position)


def test_file_with_fewer_rows_at_the_same_offset(tmp_path: Path) -> None:
    paths, position = position_in_second_file(tmp_path)
    assert position.place.skip > 1
    content = paths[1].read_bytes()
    paths[1].write_bytes(content[: content.index(b"\n", position.place.offset) + 1])
    with pytest.raises(DataError, match=r"criteo-100-100' has fewer rows than when reading stopped"):
        taken(dataset(paths, "criteo", tmp_path), start=position)


@pytest.mark.parametrize("broken", [{}, {"epoch": 1}, {"place": {}}, {"place": 5}])
def test_position_that_is_none(broken: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match=r"not a position in the data"):
        Position.from_dict(broken)
