"""The status of a delivery: what is in service, what is being rolled out and how far, which instances are in trouble.

`GET /status` of transfer. Cube's views of the same are in `compat.cube.http.transfer_views`.
"""

from __future__ import annotations

from msgspec import Struct

from clickline.cube.transfer.instance import Instance, InstanceState
from clickline.cube.transfer.layout_members import LayoutMembers
from clickline.cube.transfer.ledger import Ledger, Phase
from clickline.cube.transfer.transfer import Transfer


class RolloutStatus(Struct, frozen=True):
    """A rollout that is not over, and how many instances have done each of its steps."""

    version: int
    phase: Phase
    downloaded: int
    loaded: int
    switched: int


class InstanceStatus(Struct, frozen=True):
    """One server of the cube."""

    name: str
    """Shard and copy, such as `0_1`."""
    state: InstanceState
    version: int
    """The version that it was last busy with."""
    message: str
    """What is wrong; empty if it is healthy."""
    layout: int = 1
    """Epoch of its layout."""


class LayoutStatus(Struct, frozen=True):
    """One layout of the cube, and how many of its servers have the version in service."""

    epoch: int
    shards: int
    servers: int
    joined: bool
    """Whether all of its shards have loaded the version: it serves, and takes part in rollouts."""
    loaded: int
    switched: int
    readers: int
    """Connections of readers to its servers, as far as they can be reached."""


class TransferStatus(Struct, frozen=True):
    """All of it."""

    version: int
    """The version in service, whose rollout is over; 0: none."""
    switch: int
    """Number of the last switch."""
    rollout: RolloutStatus | None
    problem: str
    """Why the newest version is not delivered; empty if it is."""
    held: int
    """The version that was rolled back from; 0: none."""
    instances: list[InstanceStatus]
    layouts: list[LayoutStatus] = []
    """The newest last."""


def transfer_status(transfer: Transfer) -> TransferStatus:
    ledger = transfer.ledger
    return TransferStatus(
        version=ledger.current.version if ledger.current is not None else 0,
        switch=ledger.number,
        rollout=_rollout_status(transfer),
        problem=transfer.problem,
        held=ledger.held,
        instances=[_instance_status(instance) for instance in transfer.instances],
        layouts=[_layout_status(group, ledger) for group in transfer.layouts],
    )


def _rollout_status(transfer: Transfer) -> RolloutStatus | None:
    rolling = transfer.ledger.rolling
    if rolling is None:
        return None
    version, instances = rolling.version, transfer.instances
    return RolloutStatus(
        version=version,
        phase=rolling.phase,
        downloaded=sum(instance.has_downloaded(version) for instance in instances),
        loaded=sum(instance.has_loaded(version) for instance in instances),
        switched=sum(instance.serves(version, rolling.number) for instance in instances),
    )


def _instance_status(instance: Instance) -> InstanceStatus:
    return InstanceStatus(instance.name, instance.state, instance.version, instance.message, instance.layout)


def _layout_status(group: LayoutMembers, ledger: Ledger) -> LayoutStatus:
    instances, current = group.instances, ledger.current
    version, number = (0, 0) if current is None else (current.version, current.number)
    return LayoutStatus(
        epoch=group.epoch,
        shards=len(group.layout.shards),
        servers=len(instances),
        joined=group.epoch in ledger.joined,
        loaded=sum(instance.has_loaded(version) for instance in instances),
        switched=sum(instance.serves(version, number) for instance in instances),
        readers=sum(instance.server.readers for instance in instances if instance.server is not None),
    )
