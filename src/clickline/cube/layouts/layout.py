"""A layout of a cube: its shards and the servers that hold each of them.

The number of shards of a layout never changes: a key's shard follows from it. Another number is another layout, with a
higher epoch and servers of its own, which is delivered beside the one before. Replicas may come and go within a layout.

Where members are numbered, as the pods of a StatefulSet are, shard and replica follow from the ordinal:

    shard = ordinal mod shards, replica = ordinal div shards

so that one more replica of each shard is `shards` more ordinals at the end, and nobody changes its shard.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from clickline.errors import JobError, PeerError

MOST_SHARDS, MOST_REPLICAS = 4096, 64
"""Replicas: as many as a reader takes for one shard."""
_ORDINAL = re.compile(r"(?:^|-)(\d{1,7})$", re.ASCII)


class LayoutsUnknownError(PeerError):
    """Raised while the layouts of a cube cannot be learned; whoever knows them from before goes on with those."""


@dataclass(frozen=True)
class Replica:
    """One server of a shard, and the agent beside it."""

    agent: str
    """URL of its agent; readers do not need it."""
    cube: str
    """The server's address on the wire, as clients know it."""
    deploy_path: str = ""


@dataclass(frozen=True)
class Layout:
    """Shards and their replicas. Of two layouts the one with the higher epoch is the newer."""

    epoch: int
    shards: tuple[tuple[Replica, ...], ...]

    @property
    def servers(self) -> list[list[str]]:
        """Addresses on the wire by shard, for `Cube.connect`."""
        return [[replica.cube for replica in replicas] for replicas in self.shards]

    @property
    def members(self) -> tuple[Replica, ...]:
        return tuple(replica for replicas in self.shards for replica in replicas)


def single_layout(shards: Sequence[Sequence[Replica]]) -> Layout:
    """The layout of a cube whose members are listed once and for all."""
    return Layout(1, tuple(tuple(replicas) for replicas in shards))


def ordinal_of(*, shard: int, replica: int, shards: int) -> int:
    """The number of a member among all."""
    return replica * shards + shard


def place_of(ordinal: int, *, shards: int) -> tuple[int, int]:
    """Shard and replica of a numbered member."""
    return ordinal % shards, ordinal // shards


def shard_of_pod(text: str, *, shards: int) -> int:
    """The shard that a server holds: a number, or the name of its pod, whose ordinal tells. Raises JobError."""
    if text.isascii() and text.isdigit():
        shard = int(text)
        if shard >= shards:
            raise JobError(f"shard {shard} of {shards} shards: they are numbered from 0")
        return shard
    found = _ORDINAL.search(text)
    if found is None:
        raise JobError(f"{text!r} is neither the number of a shard nor the name of a pod such as 'cube-3'")
    return place_of(int(found[1]), shards=shards)[0]


def checked_layouts(layouts: Sequence[Layout], *, source: str) -> tuple[Layout, ...]:
    """The layouts of one cube, the newest last. Raises JobError if they cannot be those of one cube."""
    ordered = sorted(layouts, key=lambda layout: layout.epoch)
    for before, after in pairwise(ordered):
        if before.epoch == after.epoch:
            raise JobError(f"{source}: two layouts have epoch {after.epoch}; a newer one needs a higher epoch")
    seen: dict[str, int] = {}
    for layout in ordered:
        for replica in layout.members:
            # One server holds one shard of one number of shards: it cannot be a part of two layouts.
            if replica.cube in seen:
                where = f"epochs {seen[replica.cube]} and {layout.epoch}"
                raise JobError(f"{source}: server {replica.cube!r} is named twice, in {where}; each needs its own")
            seen[replica.cube] = layout.epoch
    return tuple(ordered)
