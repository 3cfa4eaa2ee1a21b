"""AutoInt (Song, Shi, Xiao, Duan, Xu, Zhang, Tang, 2019, arXiv:1810.11921): slots attend to each other in several
heads, with a residual path, layer after layer; with hidden layers beside it, the paper's AutoInt+.

As in the paper a dense number is a field of its own: a learned vector times the number. `hidden: []` leaves attention
only.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clickline.data.embeddings import Fields
from clickline.models.base import Model
from clickline.models.interactions import SelfAttention
from clickline.models.layers import MLP, linear
from clickline.models.parameter_types import Share, Size, Widths


class AutoInt(Model):
    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        attention_layers: Size = 3,
        heads: Size = 2,
        head_dim: Size = 16,
    ) -> None:
        super().__init__(fields)
        vectors = self.embed("embedding", dim=embedding_dim)
        self.numbers = nn.Parameter(torch.randn(fields.dense, embedding_dim) * 0.01) if fields.dense else None
        width = heads * head_dim
        self.attention = nn.Sequential(
            *(
                SelfAttention(width if layer else embedding_dim, heads=heads, head_dim=head_dim)
                for layer in range(attention_layers)
            )
        )
        self.out = linear((len(vectors.slots) + fields.dense) * width, 1, gain="linear")
        self.mlp = MLP(vectors.width + fields.dense, hidden, dropout=dropout) if hidden else None

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        v = inputs["embedding"]
        if self.numbers is not None:
            v = torch.cat((v, inputs["dense"].unsqueeze(2) * self.numbers), 1)
        logits: Tensor = self.out(self.attention(v).flatten(1))
        if self.mlp is not None:
            logits = logits + self.mlp(self.flat(inputs))
        return logits.squeeze(1)
