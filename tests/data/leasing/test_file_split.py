"""A list of files over nodes: contiguous, every file once, the first nodes one more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickline.data.leasing.file_split import contiguous_split


def test_five_files_over_two_nodes_are_the_first_three_and_the_last_two() -> None:
    assert contiguous_split(5, 2) == [range(3), range(3, 5)]
    assert contiguous_split(2, 3) == [range(1), range(1, 2), range(2, 2)]


@given(count=st.integers(0, 5000), parts=st.integers(1, 300))
def test_every_file_is_with_one_node_and_shares_differ_by_one_at_most(count: int, parts: int) -> None:
    shares = contiguous_split(count, parts)
    assert len(shares) == parts
    assert [number for share in shares for number in share] == list(range(count))
    sizes = [len(share) for share in shares]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1
    assert contiguous_split(count, parts) == shares


@given(count=st.integers(0, 5000), parts=st.integers(1, 300))
def test_one_more_file_at_the_end_moves_no_border_by_more_than_one(count: int, parts: int) -> None:
    before, after = contiguous_split(count, parts), contiguous_split(count + 1, parts)
    assert all(0 <= new.start - old.start <= 1 for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize(("count", "parts"), [(-1, 1), (1, 0)])
def test_numbers_that_make_no_sense(count: int, parts: int) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        contiguous_split(count, parts)
