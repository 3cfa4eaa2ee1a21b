"""DCN-V2 (Wang, Shivanna, Cheng, Jain, Lin, Hong, Chi, 2020, arXiv:2008.13535): cross layers multiply the input with
learned mixes of itself, one order higher with every layer, beside (`parallel`) or below (`stacked`) hidden layers.

`rank` > 0 makes the cross matrices low-rank; a quarter of the width is a good start. The paper's mixture of
low-rank experts is not here.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from clickline.data.embeddings import Fields
from clickline.models.base import Model
from clickline.models.interactions import Cross
from clickline.models.layers import MLP, linear
from clickline.models.parameter_types import Share, Size, Widths


class DCNV2(Model):
    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        cross_layers: Size = 3,
        rank: Annotated[int, Field(ge=0)] = 0,
        structure: Literal["parallel", "stacked"] = "parallel",
    ) -> None:
        super().__init__(fields)
        width = self.embed("embedding", dim=embedding_dim).width + fields.dense
        self.stacked = structure == "stacked"
        self.cross = Cross(width, cross_layers, rank=rank)
        self.mlp = MLP(width, hidden, out=0, dropout=dropout)
        self.out = linear(self.mlp.width if self.stacked else width + self.mlp.width, 1, gain="linear")

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        x = self.flat(inputs)
        crossed = self.cross(x)
        last = self.mlp(crossed) if self.stacked else torch.cat((crossed, self.mlp(x)), 1)
        logits: Tensor = self.out(last)
        return logits.squeeze(1)
