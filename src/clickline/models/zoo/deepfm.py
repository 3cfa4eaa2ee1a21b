"""DeepFM (Guo, Tang, Ye, Li, He, 2017, arXiv:1703.04247): a factorization machine and hidden layers over the same
vectors, their logits added."""

from __future__ import annotations

from torch import Tensor

from clickline.data.embeddings import Fields
from clickline.models.base import Model
from clickline.models.interactions import pairwise
from clickline.models.layers import MLP, FirstOrder
from clickline.models.parameter_types import Share, Size, Widths


class DeepFM(Model):
    def __init__(
        self, fields: Fields, *, embedding_dim: Size = 10, hidden: Widths = (256, 128), dropout: Share = 0.0
    ) -> None:
        super().__init__(fields)
        self.embed("linear", dim=1, kind="linear")
        vectors = self.embed("embedding", dim=embedding_dim)
        self.first_order = FirstOrder(fields.dense)
        self.mlp = MLP(vectors.width + fields.dense, hidden, dropout=dropout)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        fm = self.first_order(inputs["linear"], inputs.get("dense")) + pairwise(inputs["embedding"])
        return fm + self.mlp(self.flat(inputs)).squeeze(1)
