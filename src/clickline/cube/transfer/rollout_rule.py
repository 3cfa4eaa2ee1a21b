"""When a rollout may go on: the rule of download → load → switch, apart from who carries it out.

A step is over when every instance has made it, or when those that have not have been in trouble for longer than the
patience, and each shard has at least one that has. An instance that is merely slow is waited for. Nothing is switched
before this holds of loading, so no shard is left without the version that readers are sent to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from clickline.cube.transfer.instance import Instance


class Decision(Enum):
    WAIT = "wait"
    GO = "go"


@dataclass(frozen=True)
class Verdict:
    decision: Decision
    behind: tuple[str, ...] = ()
    """Instances that have not made it."""
    bare: tuple[int, ...] = ()
    """Shards of which none has."""


def judge(
    instances: Sequence[Instance],
    made_it: Callable[[Instance], bool],
    *,
    patience: float,
    now: float,
    refusals_count: bool = False,
) -> Verdict:
    """Whether the next step may begin. With `refusals_count`, who is alive must have made it, however long it takes."""
    behind = [one for one in instances if not made_it(one)]
    names = tuple(one.name for one in behind)
    shards = {one.shard for one in instances}
    bare = tuple(sorted(shards - {one.shard for one in instances if made_it(one)}))
    if not behind:
        return Verdict(Decision.GO)
    if bare or any(_may_still(one, patience, now, refusals_count) for one in behind):
        return Verdict(Decision.WAIT, names, bare)
    return Verdict(Decision.GO, names)


def _may_still(one: Instance, patience: float, now: float, refusals_count: bool) -> bool:
    """Whether this one is to be waited for."""
    if one.trouble_since is None or (refusals_count and not one.dead):
        return True
    return now - one.trouble_since < patience
