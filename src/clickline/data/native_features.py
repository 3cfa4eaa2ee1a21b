"""Slots and dense features as the native parser takes them.

The parser's arguments are positional tuples; these give each place a name. Two features are the same to the parser if
and only if their tuples are equal.
"""

from __future__ import annotations

from typing import NamedTuple

from clickline.config.features import Dense, Slot


class NativeSlot(NamedTuple):
    """A slot: where its values come from and how they become keys."""

    key_slot: str
    """The slot whose name is hashed into the keys: its own, or the one whose keys it shares (`keys_of`)."""
    column: str
    bucket: str
    separator: str
    max_values: int
    keep_last: bool
    """Whether the last `max_values` values are kept, as of a history, and not the first."""

    @classmethod
    def of(cls, slot: Slot) -> NativeSlot:
        return cls(
            key_slot=slot.keys_of or slot.name,
            column=slot.column or slot.name,
            bucket=slot.bucket,
            separator=slot.separator,
            max_values=slot.max_values,
            keep_last=slot.pooling == "sequence",
        )


class NativeDense(NamedTuple):
    """A dense feature: where its numbers come from and how they are normalised."""

    name: str
    column: str
    size: int
    normalise: str
    center: float
    spread: float
    missing: float
    """The number in place of a missing one."""

    @classmethod
    def of(cls, dense: Dense) -> NativeDense:
        return cls(
            name=dense.name,
            column=dense.column or dense.name,
            size=dense.size,
            normalise=dense.normalise,
            center=0.0 if dense.center is None else dense.center,
            spread=1.0 if dense.spread is None else dense.spread,
            missing=dense.missing,
        )
