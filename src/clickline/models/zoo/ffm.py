"""Field-aware factorization machine (Juan, Zhuang, Chin, Lin, 2016; in production: Juan, Lefortier, Chapelle, 2017,
arXiv:1701.04099): a key has one vector for every slot that it may meet, not one for all.

A key's vectors lie side by side in one row, so rows are slots × embedding_dim long: keep embedding_dim near 4.
"""

from __future__ import annotations

from torch import Tensor

from clickline.data.embeddings import Fields
from clickline.models.base import Model
from clickline.models.interactions import field_aware_pairwise
from clickline.models.layers import FirstOrder
from clickline.models.parameter_types import Size


class FFM(Model):
    def __init__(self, fields: Fields, *, embedding_dim: Size = 4) -> None:
        super().__init__(fields)
        self.embed("linear", dim=1, kind="linear")
        self.slots, self.k = len(fields.pooled), embedding_dim
        self.embed("embedding", dim=max(1, self.slots) * embedding_dim)
        self.first_order = FirstOrder(fields.dense)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        vectors = inputs["embedding"].reshape(-1, self.slots, self.slots, self.k)  # [B, slot, met slot, k]
        return self.first_order(inputs["linear"], inputs.get("dense")) + field_aware_pairwise(vectors)
