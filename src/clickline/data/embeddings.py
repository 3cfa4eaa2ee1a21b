"""Fields and embeddings: what a model is given to know of the data, and what it declares in return.

A model never owns a table of rows. It is handed `Fields` (which slots, how many dense numbers, which labels) and
answers with `Embedding` declarations: for these slots I want vectors of this length. The trainer makes a table for
every declaration, looks rows up, and hands the model one tensor for each. No PyTorch here: serving reads
the same declarations from a version's manifest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clickline.errors import ModelError

Kind = Literal["embedding", "linear"]
POOLING = {"sum": 0, "mean": 1, "max": 2, "sequence": 0}
"""How a slot's values become one vector, as native plans number it; a sequence's stay apart whatever the number."""


@dataclass(frozen=True)
class Fields:
    """What the data offers to a model. Slots keep the order they have in the job."""

    slots: tuple[str, ...]
    pooling: tuple[str, ...]
    """For every slot: sum, mean, max, or sequence."""
    dense: int = 0
    """Numbers in the dense input."""
    labels: tuple[str, ...] = ("label",)
    keys_of: tuple[str, ...] = ()
    """For every slot: the slot whose keys its values are, as in a history of items; '' where they are its own."""

    def __post_init__(self) -> None:
        if len(self.pooling) != len(self.slots):
            raise ModelError(f"{len(self.slots)} slots but {len(self.pooling)} poolings: one for every slot is needed")
        if not self.keys_of:
            object.__setattr__(self, "keys_of", ("",) * len(self.slots))
        if len(self.keys_of) != len(self.slots):
            raise ModelError(
                f"{len(self.slots)} slots but {len(self.keys_of)} in keys_of: one for every slot is needed"
            )

    @property
    def pooled(self) -> tuple[str, ...]:
        """Slots whose values become one vector."""
        return tuple(s for s, p in zip(self.slots, self.pooling, strict=True) if p != "sequence")

    @property
    def sequences(self) -> tuple[str, ...]:
        """Slots whose values stay apart."""
        return tuple(s for s, p in zip(self.slots, self.pooling, strict=True) if p == "sequence")

    def origin_of(self, slot: str) -> str:
        """The slot whose keys `slot` holds; '' if its own."""
        return self.keys_of[self.slots.index(slot)]


@dataclass(frozen=True)
class Embedding:
    """One declaration, and the name of the tensor that the model will receive for it.

    Pooled slots arrive as [batch, slots, dim]; a sequence as [batch, sequence_length, dim], padded with zeros at the
    end, with its lengths as [batch] integers under `name + ".length"`.
    """

    name: str
    dim: int
    slots: tuple[str, ...]
    kind: Kind = "embedding"
    """linear: one weight for every key. It picks the table's optimizer and start: `tables.linear` of the job."""
    sequence_length: int = 0
    """0: pooled slots."""
    table: str = ""
    """The table that holds the rows: the declaration's own name, or that of the one it shares rows with."""

    @property
    def width(self) -> int:
        """Numbers per row of the log, once flattened."""
        return self.dim * (self.sequence_length or len(self.slots))

    @property
    def length_name(self) -> str:
        return f"{self.name}.length"
