"""The split of a list over nodes: contiguous, the same for the same numbers, and as even as can be."""

from __future__ import annotations

from itertools import pairwise


def contiguous_split(count: int, parts: int) -> list[range]:
    """The numbers from 0 to before `count` in so many neighbouring ranges; the first ones have one more if needed.

    Five files over two nodes are the first three and the last two, as PaddlePaddle's fleet splits them.
    """
    if count < 0:
        raise ValueError(f"argument 'count' must be at least 0 but got {count}")
    if parts < 1:
        raise ValueError(f"argument 'parts' must be at least 1 but got {parts}")
    each, more = divmod(count, parts)
    ends = [part * each + min(part, more) for part in range(parts + 1)]
    return [range(begin, end) for begin, end in pairwise(ends)]
