"""The instances of all layouts: one reconciler for each, started and stopped as layouts and their members change.

A layout has *joined* when all of its shards have loaded the version in service. Until then it only prepares that
version, and no rollout waits for it; from then on it serves, and takes part in rollouts as every other. So within each
layout nothing is switched before every shard has it, and readers find a new layout whole or not at all. The first
layout has joined from the start: nobody reads anything else.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from clickline.cube.builder.version_source import VersionSource
from clickline.cube.layouts.layout import Layout, Replica
from clickline.cube.transfer.builds import Builds, TransferPlan
from clickline.cube.transfer.desired_state import ChainFile
from clickline.cube.transfer.instance import Instance
from clickline.cube.transfer.ledger import Ledger
from clickline.cube.transfer.reconciler import Reconciler

log = logging.getLogger("clickline.transfer")


@dataclass(frozen=True)
class LayoutMembers:
    """One layout: its reconcilers, and the builds for its number of shards."""

    layout: Layout
    builds: Builds
    reconcilers: tuple[Reconciler, ...]

    @property
    def epoch(self) -> int:
        return self.layout.epoch

    @property
    def instances(self) -> list[Instance]:
        return [reconciler.instance for reconciler in self.reconcilers]


class Membership:
    """All layouts, the newest last. Changed by transfer's thread only; `groups` may be read from any."""

    def __init__(
        self,
        plan: TransferPlan,
        source: VersionSource,
        ledger: Ledger,
        *,
        token: bytes,
        url: Callable[[str], str],
        on_change: Callable[[], None],
    ) -> None:
        self._plan, self._source, self._ledger = plan, source, ledger
        self._token, self._url, self._on_change = token, url, on_change
        self._builds: dict[int, Builds] = {}
        """By number of shards: layouts with the same number need the same files."""
        self.groups: tuple[LayoutMembers, ...] = ()

    @property
    def joined(self) -> tuple[LayoutMembers, ...]:
        return tuple(group for group in self.groups if group.epoch in self._ledger.joined)

    @property
    def joining(self) -> tuple[LayoutMembers, ...]:
        return tuple(group for group in self.groups if group.epoch not in self._ledger.joined)

    @property
    def builds(self) -> tuple[Builds, ...]:
        return tuple(dict.fromkeys(group.builds for group in self.groups))

    def differs(self, layouts: tuple[Layout, ...]) -> bool:
        return layouts != tuple(group.layout for group in self.groups)

    def update(self, layouts: tuple[Layout, ...]) -> tuple[list[Reconciler], list[Reconciler]]:
        """Take over the layouts that there are now. Returns the reconcilers that are to be started, and to be closed.

        The ledger is changed and not saved; hold its lock. Closing waits for threads that may wait for that lock.
        """
        before = {
            (group.epoch, len(group.layout.shards), each.instance.shard, each.instance.replica): each
            for group in self.groups
            for each in group.reconcilers
        }
        # A reconciler of a member that stays goes on: it may be in the middle of a download of gigabytes.
        kept: list[Reconciler] = []
        self.groups = tuple(self._group(layout, before, kept) for layout in layouts)
        listed = [group.epoch for group in self.groups]
        self._ledger.joined = [epoch for epoch in self._ledger.joined if epoch in listed]
        # Without a version there is nothing to wait for; and where no layout has joined, nobody reads any other.
        if self._ledger.current is None and self._ledger.rolling is None:
            self._ledger.joined = listed
        elif not self._ledger.joined:
            self._ledger.joined = listed[:1]
        current = [each for group in self.groups for each in group.reconcilers]
        started = [each for each in current if each not in kept]
        return started, [each for each in before.values() if each not in kept]

    def remove_unused_builds(self) -> None:
        """Remove the builds for numbers of shards that no layout has any more."""
        used = {group.builds.output for group in self.groups}
        for path in self._plan.output.glob("shards-*"):
            if path not in used:
                shutil.rmtree(path, ignore_errors=True)
        self._builds = {count: each for count, each in self._builds.items() if each.output in used}

    def _group(
        self, layout: Layout, before: dict[tuple[int, int, int, Replica], Reconciler], kept: list[Reconciler]
    ) -> LayoutMembers:
        count = len(layout.shards)
        # Layouts with as many shards share builds: the same keys fall on the same shard.
        if count not in self._builds:
            self._builds[count] = Builds(self._plan, self._source, shards=count, url=self._url)
        builds = self._builds[count]
        reconcilers = []
        for shard, replicas in enumerate(layout.shards):
            for copy, replica in enumerate(replicas):
                peers = [other.cube for other in replicas if other != replica]
                known = before.get((layout.epoch, count, shard, replica))
                if known is not None:
                    known.peers = peers
                    kept.append(known)
                reconcilers.append(
                    known or self._reconciler(Instance(shard, copy, replica, layout.epoch), peers, builds)
                )
        return LayoutMembers(layout, builds, tuple(reconcilers))

    def _reconciler(self, instance: Instance, peers: list[str], builds: Builds) -> Reconciler:
        def distrust(file: ChainFile) -> None:
            builds.suspect(file.base, file.version)
            self._on_change()

        return Reconciler(
            instance,
            name=self._plan.name,
            token=self._token,
            peers=peers,
            on_change=self._on_change,
            on_damaged=distrust,
        )
