"""The desired state of an instance: what it should serve, and what it should have prepared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clickline.cube.transfer.ledger import Ledger, Phase

if TYPE_CHECKING:
    from clickline.cube.transfer.builds import Builds


@dataclass(frozen=True)
class ChainFile:
    """One version of a chain, as agents fetch it."""

    version: int
    base: int
    sources: tuple[str, ...]
    """URLs, by shard."""
    hashes: tuple[str, ...]
    """SHA-256, by shard."""


@dataclass(frozen=True)
class DesiredState:
    """What every instance should serve, and should have prepared. A reconciler brings its instance there."""

    serve: tuple[int, int] | None = None
    """Version and number of the switch."""
    prepare: int | None = None
    """A version that is to be downloaded."""
    load: bool = False
    """Whether it is to be loaded, too."""
    chains: tuple[tuple[ChainFile, ...], ...] = ()
    """The chains of the versions named above."""
    awaited: tuple[int, ...] = ()
    """Those of them whose builds are being verified or made again: nothing is wrong with the instance."""

    def chain(self, version: int) -> tuple[ChainFile, ...]:
        return next((chain for chain in self.chains if chain and chain[-1].version == version), ())


def desired_state(ledger: Ledger, builds: Builds, *, joined: bool = True) -> DesiredState:
    """What follows from the ledger: the current version is served, unless the rollout of another is switching.

    Until then the other is prepared: downloaded first, and loaded once all instances have downloaded it. A layout that
    has not joined prepares the current version, at once as far as it can, and serves nothing.
    """
    serve, prepare = ledger.current, None
    if not joined:
        serve, prepare = None, ledger.current
    elif ledger.rolling is not None and ledger.rolling.phase is Phase.SWITCHING:
        serve = ledger.rolling
    elif ledger.rolling is not None:
        prepare = ledger.rolling
    needed = [deployment for deployment in (serve, prepare) if deployment is not None]
    return DesiredState(
        serve=None if serve is None else (serve.version, serve.number),
        prepare=None if prepare is None else prepare.version,
        load=prepare is not None and (not joined or prepare.phase is Phase.LOADING),
        chains=tuple(builds.chain_files(deployment.chain) for deployment in needed),
        awaited=tuple(deployment.version for deployment in needed if builds.is_awaited(deployment.chain)),
    )
