"""Every piece is trained by one holder at a time, and in the end is done or set aside."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickline.data.leasing.leases import Lease, LeaseTable, Lost, PieceRange
from clickline.errors import CheckpointError

HOLDERS = ["a", "b", "c"]


def saved(book: LeaseTable) -> dict[str, Any]:
    return json.loads(json.dumps(book.to_dict()))


def by_name(pieces: int, names: list[str] | None) -> list[PieceRange]:
    return [PieceRange(pieces, names=None if names is None else tuple(names))]


@settings(deadline=None)
@given(
    pieces=st.integers(0, 8),
    attempts=st.integers(1, 3),
    static=st.sampled_from([None, HOLDERS[:2], HOLDERS]),
    data=st.data(),
)
def test_whatever_happens(pieces: int, attempts: int, static: list[str] | None, data: st.DataObject) -> None:
    book = LeaseTable(pieces, attempts=attempts, ranges=by_name(pieces, static))
    given_out: dict[int, Lease] = {}
    steps = st.tuples(
        st.sampled_from(["take", "progress", "finish", "lose", "leave", "fail", "save", "assign"]),
        st.sampled_from(HOLDERS),
        st.integers(1, 20),
        st.integers(0, 1000),
    )
    for kind, holder, lease, rows in data.draw(st.lists(steps, max_size=60)):
        before = book.rows_done
        if kind == "take":
            taken = book.take(holder)
            if taken is not None:
                assert taken.number not in given_out
                assert taken.number > max(given_out, default=0)
                assert 1 <= taken.attempt <= attempts
                if static is not None:
                    assert static[taken.piece % len(static)] == holder
                given_out[taken.number] = taken
            assert book.rows_done == before
        elif kind == "progress":
            book.progress(lease, rows)
            assert book.rows_done >= before
        elif kind == "finish":
            theirs = lease in {held.lease.number for held in book.active}
            assert book.finish(lease, rows) is theirs
            assert book.rows_done >= before
        elif kind in ("lose", "leave"):
            theirs = [held.lease.number for held in book.active if held.holder == holder]
            lost = book.lose(holder, done={lease: rows}, blame=kind == "lose")
            assert [one.lease for one in lost] == theirs
            assert all(held.holder != holder for held in book.active)
        elif kind == "fail":
            book.fail(lease, reason="broken")
        elif kind == "save":
            again = LeaseTable.from_dict(saved(book))
            assert again.to_dict() == book.to_dict()
            book = again
        elif static is not None:
            static = static[::-1]
            book.assign(by_name(pieces, static))
        consistent(book, pieces)
    # Whoever is left reads all that can be read.
    for holder in HOLDERS:
        book.lose(holder, done={}, blame=False)
    for holder in HOLDERS:
        while (taken := book.take(holder)) is not None:
            assert taken.number not in given_out
            assert book.finish(taken.number, 10)
    assert book.complete
    assert book.done + len(book.set_aside) == pieces
    assert book.remaining == 0


def consistent(book: LeaseTable, pieces: int) -> None:
    held = [held.lease.piece for held in book.active]
    assert max(Counter(held).values(), default=0) <= 1
    assert not set(held) & set(book.set_aside)
    assert book.done + len(held) + len(book.set_aside) + book.remaining == pieces
    assert book.complete is (book.done + len(book.set_aside) == pieces)
    assert book.repeated_rows >= 0


def test_pieces_come_in_order_and_then_no_more() -> None:
    book = LeaseTable(2, attempts=3)
    assert book.take("a") == Lease(number=1, piece=0, skip=0, attempt=1)
    assert book.take("a") == Lease(number=2, piece=1, skip=0, attempt=1)
    assert book.take("b") is None
    assert not book.complete
    assert book.finish(2, 100) and book.finish(1, 50)
    assert book.complete
    assert book.rows_done == 150


def test_lost_piece_is_resumed_where_it_is_known_to_be() -> None:
    book = LeaseTable(3, attempts=3)
    first = book.take("a")
    book.take("a")
    book.progress(1, 500)
    book.progress(1, 400)  # old news
    assert book.rows_done == 500
    lost = book.lose("a", done={first.number: 300})
    assert lost == [
        Lost(lease=1, piece=0, rows=300, repeated=200, set_aside=False),
        Lost(lease=2, piece=1, rows=0, repeated=0, set_aside=False),
    ]
    assert (book.rows_done, book.repeated_rows) == (300, 200)
    book.progress(1, 450)
    assert book.repeated_rows == 200
    book.progress(1, 510)
    assert (book.rows_done, book.repeated_rows) == (300, 210)
    assert book.take("b") == Lease(number=3, piece=0, skip=300, attempt=2)
    assert book.finish(3, 1000)
    assert book.rows_done == 1000


def test_servers_may_know_of_more_than_was_reported() -> None:
    book = LeaseTable(1, attempts=3)
    book.take("a")
    book.progress(1, 100)
    book.lose("a", done={1: 160})
    assert book.take("b").skip == 160
    assert (book.rows_done, book.repeated_rows) == (160, 0)


def test_one_taken_for_dead_who_goes_on() -> None:
    book = LeaseTable(1, attempts=3)
    book.take("a")
    book.progress(1, 100)
    book.lose("a", done={})
    again = book.take("b")
    book.progress(1, 130)  # after the loss: these rows are trained by b as well
    assert book.repeated_rows == 30
    assert book.finish(1, 200) is False
    assert book.repeated_rows == 100
    assert book.finish(1, 200) is False
    assert book.repeated_rows == 100
    assert book.rows_done == 100
    assert book.finish(again.number, 200)
    assert (book.rows_done, book.repeated_rows) == (200, 100)


def test_piece_that_takes_its_holders_down_is_set_aside() -> None:
    book = LeaseTable(2, attempts=2)
    assert book.take("a").piece == 0
    assert [lost.set_aside for lost in book.lose("a", done={})] == [False]
    assert book.take("b") == Lease(number=2, piece=0, skip=0, attempt=2)
    book.progress(2, 70)
    assert book.lose("b", done={}) == [Lost(lease=2, piece=0, rows=70, repeated=0, set_aside=True)]
    assert book.set_aside == {0: "b was lost"}
    assert book.take("c").piece == 1
    assert book.finish(3, 5)
    assert book.complete
    assert book.rows_done == 75


def test_failing_piece_comes_last() -> None:
    book = LeaseTable(3, attempts=2)
    book.take("a")
    book.fail(1, reason="'x' is truncated")
    book.fail(1, reason="once more, by a lease that is gone")
    order = [book.take("a") for _ in range(3)]
    assert [(lease.piece, lease.attempt) for lease in order] == [(1, 1), (2, 1), (0, 2)]
    book.fail(order[-1].number, reason="'x' is truncated")
    assert book.set_aside == {0: "'x' is truncated"}


def test_leaving_in_order_is_not_held_against_the_piece() -> None:
    book = LeaseTable(1, attempts=1)
    for number in range(1, 5):
        assert book.take("a").attempt == 1
        book.progress(number, number)
        assert book.lose("a", done={}, blame=False)[0].rows == number
    assert not book.set_aside


def test_static_pieces_stay_with_their_holder() -> None:
    book = LeaseTable(5, attempts=9, ranges=by_name(5, ["a", "b"]))
    assert book.take("c") is None
    assert [book.take("a").piece for _ in range(3)] == [0, 2, 4]
    assert book.take("a") is None
    book.lose("a", done={})
    assert book.take("b").piece == 1
    assert book.take("a").piece == 0
    book.assign(by_name(5, ["b"]))
    assert [book.take("b").piece for _ in range(3)] == [2, 3, 4]
    book.lose("b", done={})
    book.assign(None)
    assert book.take("anybody").piece == 1


def test_books_one_after_another_share_no_number() -> None:
    book = LeaseTable(2, attempts=1)
    old = saved(book)
    book.take("a"), book.take("a")
    following = LeaseTable(2, attempts=1, first=book.next_lease)
    assert following.take("a").number == 3
    assert LeaseTable.from_dict(old, first=book.next_lease).take("a").number == 3
    assert LeaseTable.from_dict(saved(following), first=2).take("a").number == 4


def test_what_is_saved_stays_short() -> None:
    book = LeaseTable(20_000, attempts=3)
    for _ in range(20_000):
        lease = book.take("a")
        if lease.piece not in (70, 9000):
            book.finish(lease.number, 1000)
    assert saved(book)["done"] == [[0, 70], [71, 9000], [9001, 20_000]]
    assert len(json.dumps(saved(book))) < 400


@pytest.mark.parametrize(
    "change",
    [
        {"done": [[0, 9]]},
        {"done": 5},
        {"set_aside": [[0, "why"]]},
        {"held": [[1, 1, 0, 1, "a", 0], [2, 1, 0, 1, "b", 0]]},
        {"held": [[7, 1, 0, 1, "a", 0]]},
        {"next_lease": None},
        {"attempts": 0},
        {"ranges": [[2, None, [], False]]},
        {"ranges": [[2, None, ["a", "a"], False]]},
        {"ranges": [[1, None, None, False]]},
        {"ranges": [[3, 0, None, False], [-1, 1, None, False]]},
        {"ranges": [[2, None]]},
        {"more": 1},
    ],
)
def test_book_that_is_none(change: dict[str, Any]) -> None:
    book = LeaseTable(2, attempts=3)
    for _ in range(2):
        book.take("a")
    book.finish(1, 10)
    LeaseTable.from_dict(saved(book))
    with pytest.raises(CheckpointError, match=r"not a lease table"):
        LeaseTable.from_dict(saved(book) | change)


def test_arguments_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match=r"'attempts' must be at least 1 but got 0"):
        LeaseTable(1, attempts=0)
    with pytest.raises(ValueError, match=r"'ranges' must have different names in a range but has \['a', 'a'\]"):
        LeaseTable(1, attempts=1, ranges=by_name(1, ["a", "a"]))
    book = LeaseTable(1, attempts=1)
    book.take("a")
    with pytest.raises(ValueError, match=r"lease 1 cannot have -1 rows done"):
        book.lose("a", done={1: -1})
