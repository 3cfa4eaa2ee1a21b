"""Deep interest network (Zhou et al., 2018, arXiv:1706.06978): what a user did before is weighed, event by event, by
how it fits the candidate, and the weighed sum joins the other vectors in hidden layers.

`histories` names, for each slot with pooling: sequence, the slot of the candidate that it is compared with; by default
that is the slot whose keys it holds (`keys_of`). Both then share rows, so the same item has the same vector in either.
Several histories (item, category, …) are read position by position: one value an event in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from clickline.config.loading.suggestions import did_you_mean
from clickline.data.embeddings import Embedding, Fields
from clickline.errors import ModelError
from clickline.models.base import Model
from clickline.models.interactions import HistoryAttention
from clickline.models.layers import MLP
from clickline.models.parameter_types import Activation, Share, Size, Widths


class DIN(Model):
    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        histories: Mapping[str, str] | None = None,
        sequence_length: Size = 50,
        attention_hidden: Annotated[Widths, Field(min_length=1)] = (80, 40),
        activation: Activation = "prelu",
        normalise: bool = False,
    ) -> None:
        super().__init__(fields)
        compared = _compared(fields, histories)
        vectors = self.embed("embedding", dim=embedding_dim)
        self.events: list[Embedding] = [
            self.embed(
                f"history_{i}", dim=embedding_dim, slots=[slot], sequence_length=sequence_length, table="embedding"
            )
            for i, slot in enumerate(compared, 1)
        ]
        self.candidate = [vectors.slots.index(slot) for slot in compared.values()]
        width = embedding_dim * len(compared)
        self.attention = HistoryAttention(width, attention_hidden, activation=activation, normalise=normalise)
        self.mlp = MLP(vectors.width + width + fields.dense, hidden, dropout=dropout, activation=activation)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        events = torch.cat([inputs[e.name] for e in self.events], 2)
        # An event counts if any history has a value there; vectors of shorter histories are zeros behind their end.
        length = torch.stack([inputs[e.length_name] for e in self.events]).amax(0)
        candidate = torch.cat([inputs["embedding"][:, slot] for slot in self.candidate], 1)
        interest = self.attention(events, candidate, length)
        return self.mlp(torch.cat((interest, self.flat(inputs)), 1)).squeeze(1)


def _compared(fields: Fields, histories: Mapping[str, str] | None) -> dict[str, str]:
    """History slot → slot of the candidate, checked."""
    if not fields.sequences:
        raise ModelError("din reads a history, but no slot of the job has pooling: sequence (features.slots)")
    compared = {s: fields.origin_of(s) for s in fields.sequences} if histories is None else dict(histories)
    # An empty mapping takes one turn with a name that no slot has, so it is refused like an unknown slot.
    for history, slot in compared.items() or [("", "")]:
        if history not in fields.sequences:
            known = fields.sequences
            raise ModelError(
                f"model.params.histories: {history!r} is not a slot with pooling: sequence;"
                f"{did_you_mean(history, known)} those are: {', '.join(known)}"
            )
        if slot not in fields.pooled:
            raise ModelError(
                f"din: the history {history!r} is compared with {slot!r}, which is not a slot of the candidate;"
                f" give the slot keys_of, or model.params.histories: {{{history}: one of {', '.join(fields.pooled)}}}"
            )
    return compared
