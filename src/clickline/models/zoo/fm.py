"""Factorization machine (Rendle, 2010): logistic regression plus the dot product of every two slots' vectors."""

from __future__ import annotations

from torch import Tensor

from clickline.data.embeddings import Fields
from clickline.models.base import Model
from clickline.models.interactions import pairwise
from clickline.models.layers import FirstOrder
from clickline.models.parameter_types import Size


class FM(Model):
    def __init__(self, fields: Fields, *, embedding_dim: Size = 10) -> None:
        super().__init__(fields)
        self.embed("linear", dim=1, kind="linear")
        self.embed("embedding", dim=embedding_dim)
        self.first_order = FirstOrder(fields.dense)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        return self.first_order(inputs["linear"], inputs.get("dense")) + pairwise(inputs["embedding"])
