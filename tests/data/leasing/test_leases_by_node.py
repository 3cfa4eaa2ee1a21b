"""Pieces of a node are leased to trainers of that node only, and the rows of all nodes add up."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clickline.data.leasing.leases import LeaseTable, PieceRange

ROWS = 10
"""Of every piece."""


def saved(book: LeaseTable) -> dict[str, Any]:
    return json.loads(json.dumps(book.to_dict()))


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    by_name=st.booleans(),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["take", "finish", "lose", "give up", "come back", "save"]),
            st.integers(0, 3),
            st.sampled_from(["a", "b"]),
            st.integers(0, ROWS),
        ),
        max_size=60,
    ),
)
def test_whatever_happens(sizes: list[int], by_name: bool, steps: list[tuple[str, int, str, int]]) -> None:
    gone: set[int] = set()

    def ranges() -> list[PieceRange]:
        return [
            PieceRange(size, node, tuple(f"{name}{node}" for name in "ab") if by_name else None, node in gone)
            for node, size in enumerate(sizes)
        ]

    node_of = [node for node, size in enumerate(sizes) for _ in range(size)]
    book = LeaseTable(len(node_of), attempts=100, ranges=ranges())
    for kind, node, name, rows in steps:
        holder = f"{name}{node}"
        mine = [held for held in book.active if held.holder == holder]
        if kind == "take":
            lease = book.take(holder, node=node)
            assert lease is None or (node_of[lease.piece] == node and node not in gone)
        elif kind == "finish" and mine:
            assert book.finish(mine[0].lease.number, ROWS)
        elif kind == "lose":
            done = {held.lease.number: max(held.rows, rows) for held in mine}
            assert len(book.lose(holder, done=done)) == len(mine)
        elif kind in ("give up", "come back"):
            (gone.add if kind == "give up" else gone.discard)(node)
            book.assign(ranges())
        elif kind == "save":
            book = LeaseTable.from_dict(saved(book))
        assert {node_of[piece] for piece in book.unreachable} <= gone
        settled = book.done + len(book.active) + book.remaining + len(book.unreachable)
        assert settled == len(node_of)
        assert sum(book.rows_by_node().values()) == book.rows_done
    # Trainers of the nodes that are left finish the rest: what is not trained is what the others had.
    for node in range(len(sizes)):
        for holder in (f"a{node}", f"b{node}"):
            book.lose(holder, done={}, blame=False)
        for holder in (f"a{node}", f"b{node}"):
            while (lease := book.take(holder, node=node)) is not None:
                book.finish(lease.number, ROWS)
    assert book.complete
    untrained = sum(ROWS - book.rows_begun(piece) for piece in book.unreachable)
    assert book.rows_done + untrained == ROWS * len(node_of)
    assert all(book.rows_by_node()[node] == ROWS * size for node, size in enumerate(sizes) if node not in gone)


def test_a_trainer_of_another_node_gets_nothing_and_the_lost_piece_goes_on_at_its_own() -> None:
    book = LeaseTable(3, attempts=3, ranges=[PieceRange(2, node=0), PieceRange(1, node=1)])
    lease = book.take("x", node=1)
    assert (lease.piece, book.take("y", node=1)) == (2, None)
    book.progress(lease.number, 4)
    book.lose("x", done={})
    assert [book.take("z", node=0).piece for _ in range(2)] == [0, 1]
    assert book.take("z", node=0) is None
    again = book.take("y", node=1)
    assert (again.piece, again.skip) == (2, 4)


def test_what_a_node_has_left_is_unreachable_until_it_is_back() -> None:
    ranges = [PieceRange(1, node=0), PieceRange(2, node=1)]
    book = LeaseTable(3, attempts=3, ranges=ranges)
    book.finish(book.take("a", node=0).number, 10)
    book.finish(book.take("b", node=1).number, 10)
    assert not book.complete
    book.assign([ranges[0], PieceRange(2, node=1, given_up=True)])
    assert (book.complete, book.unreachable, book.remaining) == (True, {2}, 0)
    assert book.rows_by_node() == {0: 10, 1: 10}
    book = LeaseTable.from_dict(saved(book))
    assert book.unreachable == {2}
    book.assign(ranges)
    assert not book.complete
    assert book.take("b", node=1).piece == 2


def test_a_table_of_an_earlier_release_is_read() -> None:
    book = saved(LeaseTable(3, attempts=3))
    del book["ranges"], book["node_rows"]
    assert LeaseTable.from_dict(book | {"static": None}).ranges == (PieceRange(3),)
    assert LeaseTable.from_dict(book | {"static": ["a", "b"]}).ranges == (PieceRange(3, names=("a", "b")),)
