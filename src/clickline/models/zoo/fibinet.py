"""FiBiNET (Huang, Zhang, Zhang, 2019, arXiv:1905.09433): slots are weighed by how much they matter in this row (SENET);
weighed and plain vectors are then crossed pair by pair through a matrix, and hidden layers read all the crosses.

There are slots × (slots - 1) crosses, each embedding_dim wide, so the first hidden layer is the large one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from clickline.data.embeddings import Fields
from clickline.errors import ModelError
from clickline.models.base import Model
from clickline.models.interactions import Bilinear, Squeeze
from clickline.models.layers import MLP, FirstOrder
from clickline.models.parameter_types import BilinearKind, Share, Size, Widths


class FiBiNET(Model):
    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        bilinear: BilinearKind = "interaction",
        reduction: Size = 3,
    ) -> None:
        super().__init__(fields)
        self.embed("linear", dim=1, kind="linear")
        slots = len(self.embed("embedding", dim=embedding_dim).slots)
        if slots < 2:
            raise ModelError(f"fibinet crosses pairs of slots, so it needs two or more; the job has {slots}")
        self.first_order = FirstOrder(fields.dense)
        self.squeeze = Squeeze(slots, reduction=reduction)
        self.plain, self.weighed = (Bilinear(slots, embedding_dim, bilinear) for _ in range(2))
        self.mlp = MLP(2 * self.plain.width + fields.dense, hidden, dropout=dropout)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        v = inputs["embedding"]
        parts = [self.plain(v), self.weighed(self.squeeze(v))]
        if self.fields.dense:
            parts.append(inputs["dense"])
        linear_part = self.first_order(inputs["linear"], inputs.get("dense"))
        return linear_part + self.mlp(torch.cat(parts, 1)).squeeze(1)
