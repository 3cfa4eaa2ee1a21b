"""xDeepFM (Lian, Zhou, Zhang, Chen, Xie, Sun, 2018, arXiv:1803.05170): a compressed interaction network, which crosses
whole vectors order by order, beside a linear part and hidden layers.

The network's cost grows with slots × cin_layers²: the paper's three layers of 200 are for GPUs, hence the smaller
default.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import Tensor

from clickline.data.embeddings import Fields
from clickline.models.base import Model
from clickline.models.interactions import CIN
from clickline.models.layers import MLP, FirstOrder, linear
from clickline.models.parameter_types import Share, Size, Widths


class XDeepFM(Model):
    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        cin_layers: Annotated[Widths, Field(min_length=1)] = (32, 32),
    ) -> None:
        super().__init__(fields)
        self.embed("linear", dim=1, kind="linear")
        vectors = self.embed("embedding", dim=embedding_dim)
        self.first_order = FirstOrder(fields.dense)
        self.cin = CIN(len(vectors.slots), cin_layers)
        self.cin_out = linear(self.cin.width, 1, gain="linear")
        self.mlp = MLP(vectors.width + fields.dense, hidden, dropout=dropout)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        linear_part = self.first_order(inputs["linear"], inputs.get("dense"))
        deep: Tensor = self.mlp(self.flat(inputs)) + self.cin_out(self.cin(inputs["embedding"]))
        return linear_part + deep.squeeze(1)
