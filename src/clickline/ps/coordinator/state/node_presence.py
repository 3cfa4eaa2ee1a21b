"""Which nodes have trainers, which had some, and which have been without for too long."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from clickline.ps.coordinator.state.members import Member, RunMembers


class NodePresence:
    """The nodes of a run. Not locked: the run's state, which owns it, is."""

    def __init__(self, members: RunMembers, *, patience: float) -> None:
        """`patience`: seconds without a trainer after which a node is gone."""
        self._members, self.patience = members, patience
        self._seen: set[int] = set()
        self._absent_since: dict[int, float] = {}
        self.gone: frozenset[int] = frozenset()

    def update(self, nodes: Iterable[int]) -> frozenset[int]:
        """Look who is there, of these nodes and all that were seen; returns those that have gone or come back."""
        before, live, now = self.gone, self.live, time.monotonic()
        self._seen |= live | set(nodes)
        if not live:  # without any trainer the run ends, whichever node is the first to come back
            return frozenset()
        self._absent_since = {node: self._absent_since.get(node, now) for node in self._seen - live}
        self.gone = frozenset(node for node, since in self._absent_since.items() if now - since > self.patience)
        return self.gone ^ before

    @property
    def live(self) -> set[int]:
        """Nodes that have a trainer."""
        return {member.node for member in self._members.live("trainer")}

    def expected(self, trainers: Sequence[Member]) -> list[int]:
        """Nodes of these trainers, and those that may have one again soon."""
        return sorted(({trainer.node for trainer in trainers} | self._seen) - self.gone)

    def trainers_of(self, node: int) -> int:
        """How many trainers a node has; 1 if it has none, for whoever comes."""
        return max(1, sum(member.node == node for member in self._members.live("trainer")))
