"""Where the layouts of a cube are learned from: a list, a file that is watched, or a headless service.

    FixedLayouts(layout)                     members that are listed once and for all
    LayoutsFile(path)                        a YAML or JSON file, read again when it has changed (`layouts_file`)
    ServiceLayout(settings)                  members found by the names that a service gives them (`service_layout`)

All of them have one method: `layouts()`, the newest last. It raises LayoutsUnknownError while they cannot be learned;
whoever has learned them before goes on with those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from clickline.cube.layouts.layout import Layout, Replica, checked_layouts


class LayoutSource(Protocol):
    """Tells the layouts of a cube. For one thread at a time."""

    def layouts(self) -> tuple[Layout, ...]:
        """At least one, the newest last. Cheap: may be called several times a second."""


class FixedLayouts:
    """Layouts that do not change."""

    def __init__(self, *layouts: Layout) -> None:
        self._layouts = checked_layouts(layouts, source="the list of servers")

    @classmethod
    def of_addresses(cls, servers: Sequence[Sequence[str]]) -> FixedLayouts:
        """For a reader, which needs no agents. `servers`: addresses of the replicas of each shard."""
        shards = tuple(tuple(Replica("", address) for address in replicas) for replicas in servers)
        return cls(Layout(1, shards))

    def layouts(self) -> tuple[Layout, ...]:
        return self._layouts
