"""The class that every model derives from: declare embeddings in `__init__`, compute logits in `forward`.

Beware: rows come and go with the data, so a model must not keep per-key state of its own; and `forward` must not branch
on the values of its inputs, since the same code is exported for serving.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from clickline.config.loading.suggestions import did_you_mean
from clickline.data.embeddings import Embedding, Fields, Kind
from clickline.errors import ModelError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Model(nn.Module):
    """A network over rows and dense numbers.

    `forward` receives {"dense": [B, D], declared name: [B, slots, dim], …} (no "dense", or one of width 0, if D is 0)
    and returns logits: [B], or [B, labels] when the job has several labels.
    """

    __call__: Callable[..., Tensor]
    several_labels: ClassVar[bool] = False
    """Whether `forward` gives one logit for every label; others are built for one label only."""

    def __init__(self, fields: Fields) -> None:
        super().__init__()
        self.fields = fields
        self.embeddings: dict[str, Embedding] = {}

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} needs a forward(inputs) that returns logits")

    def embed(
        self,
        name: str,
        *,
        dim: int,
        slots: Sequence[str] | None = None,
        kind: Kind = "embedding",
        sequence_length: int = 0,
        table: str | None = None,
    ) -> Embedding:
        """Declare rows of length `dim` for `slots` (default: all that are no sequences).

        `table` names an earlier declaration whose rows are used, so that equal keys mean equal vectors.
        """
        what = f"{type(self).__name__}.embed({name!r})"
        if not _NAME.fullmatch(name) or name == "dense":
            raise ModelError(f"{what}: not a usable name; letters, digits and _ are, and 'dense' is taken")
        if name in self.embeddings:
            raise ModelError(f"{what}: declared twice; every declaration needs a name of its own")
        if dim < 1 or sequence_length < 0:
            raise ModelError(f"{what}: dim={dim}, sequence_length={sequence_length}; needed: dim ≥ 1, length ≥ 0")
        if kind not in ("embedding", "linear") or (kind == "linear" and dim != 1):
            raise ModelError(f"{what}: kind={kind!r} with dim={dim}; 'embedding' takes any dim, 'linear' takes dim=1")
        chosen = self.fields.pooled if slots is None else tuple(slots)
        self._check_slots(what, chosen, sequence_length)
        if table is not None:
            self._check_table(what, table, dim, kind)
        # `table` is always an owner, never itself a sharer: `_check_table` looks among owners only.
        declared = Embedding(name, dim, chosen, kind, sequence_length, table or name)
        self.embeddings[name] = declared
        return declared

    @property
    def tables(self) -> dict[str, Embedding]:
        """The declarations that own a table; the others share one of these."""
        return {name: e for name, e in self.embeddings.items() if e.table == name}

    @property
    def unused_slots(self) -> tuple[str, ...]:
        """Slots of the job that no declaration reads."""
        used = {slot for e in self.embeddings.values() for slot in e.slots}
        return tuple(slot for slot in self.fields.slots if slot not in used)

    def flat(self, inputs: dict[str, Tensor], name: str = "embedding") -> Tensor:
        """Everything of a row side by side: the rows of declaration `name`, then the dense numbers."""
        rows = inputs[name].flatten(1)
        return torch.cat((rows, inputs["dense"]), 1) if self.fields.dense else rows

    def example_inputs(self, rows: int = 2) -> dict[str, Tensor]:
        """Zeros in the shape that `forward` expects; for export and for checking a model of your own."""
        inputs = {"dense": torch.zeros(rows, self.fields.dense)} if self.fields.dense else {}
        for e in self.embeddings.values():
            inputs[e.name] = torch.zeros(rows, e.sequence_length or len(e.slots), e.dim)
            if e.sequence_length:
                inputs[e.length_name] = torch.full((rows,), e.sequence_length, dtype=torch.int32)
        return inputs

    def _check_slots(self, what: str, slots: tuple[str, ...], sequence_length: int) -> None:
        known = self.fields.slots
        if not slots:
            raise ModelError(f"{what}: no slots; the job has none that are not sequences (features.slots)")
        for slot in slots:
            if slot not in known:
                listed = ", ".join(known) or "none"
                raise ModelError(f"{what}: no slot {slot!r};{did_you_mean(slot, known)} Slots of the job: {listed}")
        if len(set(slots)) != len(slots):
            raise ModelError(f"{what}: a slot is listed twice: {', '.join(slots)}")
        sequences = [slot for slot in slots if slot in self.fields.sequences]
        if sequence_length and (len(slots) != 1 or not sequences):
            raise ModelError(
                f"{what}: a sequence reads exactly one slot with pooling: sequence, not {', '.join(slots)};"
                f" slots with it: {', '.join(self.fields.sequences) or 'none'}"
            )
        if sequences and not sequence_length:
            raise ModelError(f"{what}: slot {sequences[0]!r} is a sequence; give sequence_length, or another pooling")

    def _check_table(self, what: str, table: str, dim: int, kind: Kind) -> None:
        owner = self.tables.get(table)
        if owner is None:
            listed = ", ".join(self.tables) or "none"
            raise ModelError(f"{what}: no table {table!r};{did_you_mean(table, self.tables)} Declared so far: {listed}")
        if (owner.dim, owner.kind) != (dim, kind):
            raise ModelError(
                f"{what}: table {table!r} holds {owner.kind} rows of dim {owner.dim}, not {kind} rows of dim {dim};"
                " shared rows must be alike"
            )
