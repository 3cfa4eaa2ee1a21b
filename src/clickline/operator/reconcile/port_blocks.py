"""Blocks of 20 ports on nodes' networks: no two pods of any job have the same, so any of them may share a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clickline.errors import JobError
from clickline.operator.job.paddle_job import BLOCK_PORTS, BLOCKS, FIRST_PORT


def allocate(held: Mapping[str, int], pods: Iterable[str], *, taken: frozenset[int]) -> dict[str, int]:
    """The block of each pod: the one that it holds, or the lowest that is free."""
    wanted = list(pods)
    # A pod that is replaced keeps its block: the others have been told its port.
    blocks = {pod: held[pod] for pod in wanted if pod in held}
    used = taken | set(blocks.values())
    free = (port for port in range(FIRST_PORT, FIRST_PORT + BLOCKS * BLOCK_PORTS, BLOCK_PORTS) if port not in used)
    for pod in wanted:
        if pod in blocks:
            continue
        if (port := next(free, None)) is None:
            raise JobError(
                f"no block of {BLOCK_PORTS} ports is free for {pod!r}: {BLOCKS} pods of jobs with intranet: Host have "
                "one; wait until one of them has finished, or use PodIP or Service"
            )
        blocks[pod] = port
    return blocks
