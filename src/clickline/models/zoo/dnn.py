"""Vectors and hidden layers, nothing else (Covington, Adams, Sargin, 2016, "Deep Neural Networks for YouTube
Recommendations"): the plain network that the others are measured against."""

from __future__ import annotations

from torch import Tensor

from clickline.data.embeddings import Fields
from clickline.models.base import Model
from clickline.models.layers import MLP
from clickline.models.parameter_types import Share, Size, Widths


class DNN(Model):
    def __init__(
        self, fields: Fields, *, embedding_dim: Size = 10, hidden: Widths = (256, 128), dropout: Share = 0.0
    ) -> None:
        super().__init__(fields)
        vectors = self.embed("embedding", dim=embedding_dim)
        self.mlp = MLP(vectors.width + fields.dense, hidden, dropout=dropout)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        return self.mlp(self.flat(inputs)).squeeze(1)
