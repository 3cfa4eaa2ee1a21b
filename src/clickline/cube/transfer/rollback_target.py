"""A rollback: which version it goes to, under which number, and how it went."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from clickline.cube.transfer.instance import Instance
from clickline.cube.transfer.ledger import Deployment, Ledger, Phase
from clickline.errors import VersionError


class RollbackResult(Struct, frozen=True):
    """How a rollback went."""

    version: int
    switch: int
    """Number of the switch."""
    seconds: float
    behind: list[str]
    """Instances that do not serve the version yet."""
    finished: bool


def rollback_target(ledger: Ledger, instances: Sequence[Instance], version: int, *, keep: int) -> Deployment:
    """The given version, or the previous one if it is 0. Raises VersionError if it cannot be switched to at once."""
    known = ledger.deployed(keep)
    others = [one for one in known if ledger.current is None or one.version != ledger.current.version]
    if ledger.rolling is not None and ledger.rolling.phase is Phase.SWITCHING and ledger.current is not None:
        others = known  # some servers have left the current version already, so that is the previous one
    chosen = [one for one in known if one.version == version] if version else others[-1:]
    if not chosen:
        listed = ", ".join(str(one.version) for one in others) or "none"
        raise VersionError(f"no version {version or 'before this one'} to go back to; kept: {listed}")
    (target,) = chosen
    shards = {instance.shard for instance in instances}
    # One replica of each shard is enough: clients ask that one until the others have caught up.
    if shards - {instance.shard for instance in instances if instance.has_loaded(target.version)}:
        raise VersionError(f"version {target.version} is not loaded on any server of some shard")
    return target


def next_number(ledger: Ledger, instances: Sequence[Instance]) -> int:
    """A number for the next switch: higher than any in the ledger, and, should it have been lost, on any server."""
    on_servers = [instance.server.number for instance in instances if instance.server is not None]
    return 1 + max([ledger.number, *on_servers])
