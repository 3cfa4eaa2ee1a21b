"""Synthetic logs look like what they stand for: missing rates, few values very often, drift, histories."""

from __future__ import annotations

import re

import numpy as np
import pytest

from clickline.data.synthetic import CriteoRows, criteo_rows, movielens_log
from clickline.data.synthetic.criteo_log import CriteoLog
from clickline.data.synthetic.criteo_shape import ABSENCES, CATEGORIES, INTEGERS
from clickline.data.synthetic.slot_log import SLOTS, SlotLog

ROWS = 40_000


@pytest.fixture(scope="module")
def rows() -> CriteoRows:
    return criteo_rows(ROWS, 7)


def test_criteo_is_missing_as_much_as_it_should_be(rows: CriteoRows) -> None:
    for category, values in zip(CATEGORIES, rows.values, strict=True):
        assert (values < 0).mean() == pytest.approx(ABSENCES.get(category.absence, 0), abs=0.012)
    for integer, present in zip(INTEGERS, rows.has_integer, strict=True):
        assert (~present).mean() == pytest.approx(ABSENCES.get(integer.absence, 0), abs=0.012)
    assert ((rows.values[2] < 0) == (rows.values[3] < 0)).all()  # some go missing together
    assert (rows.values[[0, 1, 4]] >= 0).all()  # some never do


def test_criteo_has_few_values_often_and_many_once(rows: CriteoRows) -> None:
    early = rows.values[:, : ROWS // 10]
    for category, values in zip(CATEGORIES, early, strict=True):
        there = values[values >= 0]
        assert np.bincount(there).max() / len(there) == pytest.approx(category.top, abs=0.04)
    _, counts = np.unique(rows.values[2][rows.values[2] >= 0], return_counts=True)
    assert (counts == 1).mean() > 0.5
    assert len({*rows.values[8].tolist()}) <= 3


def test_criteo_clicks_a_quarter_of_the_time_and_more_so_later(rows: CriteoRows) -> None:
    assert rows.probability.mean() == pytest.approx(0.25, abs=0.01)
    assert rows.labels.mean() == pytest.approx(0.25, abs=0.015)
    fifth = ROWS // 5
    assert rows.probability[-fifth:].mean() > rows.probability[:fifth].mean() + 0.01


def test_criteo_integers_are_negative_only_in_the_second_column(rows: CriteoRows) -> None:
    negative = ((rows.integers < 0) & rows.has_integer).mean(axis=1)
    assert negative[1] == pytest.approx(0.1, abs=0.01)
    assert (np.delete(negative, 1) == 0).all()
    assert rows.integers[1].min() == -2


def test_criteo_popularity_drifts(rows: CriteoRows) -> None:
    """The second and the third value of a slot trade places, bit by bit."""
    leads = []
    for part in np.array_split(rows.values[[0, 13, 16, 22]], 8, axis=1)[::7]:
        second, third = (part == 1).sum(), (part == 2).sum()
        leads.append(second / (second + third))
    assert leads[0] > leads[1] + 0.04


def test_criteo_lines_have_forty_columns() -> None:
    log = CriteoLog(rows=500, seed=1)
    data, ends = log.text(log.block(0))
    line = re.compile(rb"[01](\t(-?(0|[1-9]\d{0,6}))?){13}(\t([0-9a-f]{8})?){26}")
    lines = data.splitlines()
    assert len(lines) == len(ends) == 500
    assert all(line.fullmatch(found) for found in lines)


@pytest.mark.parametrize("ids", [25_000, 300_000, 5_500_000, 1_000_000_000])
def test_criteo_vocabularies_add_up(ids: int) -> None:
    sizes = CriteoLog(rows=1, seed=1, ids=ids).describe()["vocabulary"].values()
    assert sum(sizes) == pytest.approx(ids, rel=0.01)


def test_movielens_histories_are_what_was_liked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(movielens_log, "HISTORY", 6)  # so that some are longer
    log = movielens_log.MovieLensLog(rows=10_000, seed=2)
    liked: dict[str, list[str]] = {}
    clock, longest = 0, 0
    for number in range(2):
        for line in log.text(log.block(number))[0].decode().splitlines():
            label, finish, user, _, _, _, movie, genres, seen, time = line.split(",")
            mine = liked.setdefault(user, [])
            assert seen == "|".join(mine[-6:])
            assert genres
            assert int(finish) <= int(label)
            assert int(time) >= clock
            clock, longest = int(time), max(longest, seen.count("|") + 1)
            if label == "1":
                mine.append(movie)
    assert longest == 6


def test_slot_text_has_several_values_and_absent_slots() -> None:
    log = SlotLog(rows=3000, seed=2)
    most = dict.fromkeys(SLOTS, 0)
    fewest = dict.fromkeys(SLOTS, 100)
    for line in log.text(log.block(0))[0].decode().splitlines():
        cells = [cell.split(":") for cell in line.split(" ")]
        assert [name for name, _ in cells[:3]] == ["click", "price", "rank"]
        assert re.fullmatch(r"\d+\.\d\d", cells[1][1])
        for name, shape in SLOTS.items():
            values = [int(value) for found, value in cells[3:] if found == name]
            assert all(1 <= value <= shape.values for value in values)
            most[name], fewest[name] = max(most[name], len(values)), min(fewest[name], len(values))
    assert most == {name: shape.most for name, shape in SLOTS.items()}
    assert fewest == {name: int(shape.present == 1) for name, shape in SLOTS.items()}
