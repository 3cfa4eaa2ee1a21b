"""FinalMLP (Mao, Zhu, Su, Cai, Li, Dong, 2023, arXiv:2304.00902): two networks read the same row, each through its own
gate 2σ(g), and a multi-head bilinear form of their outputs gives the logit.

A gate sees the slots named for it (those of the user for one, of the item for the other, say), or none: then it is a
learned constant.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from clickline.config.loading.suggestions import did_you_mean
from clickline.data.embeddings import Fields
from clickline.errors import ModelError
from clickline.models.base import Model
from clickline.models.interactions import BilinearFusion
from clickline.models.layers import MLP, TensorModule, linear
from clickline.models.parameter_types import Share, Size, Widths


class FinalMLP(Model):
    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        second_hidden: Widths | None = None,
        heads: Size = 8,
        gate_hidden: Widths = (64,),
        first_gate: Sequence[str] = (),
        second_gate: Sequence[str] = (),
    ) -> None:
        super().__init__(fields)
        vectors = self.embed("embedding", dim=embedding_dim)
        width = vectors.width + fields.dense
        self.first = MLP(width, hidden, out=0, dropout=dropout)
        self.second = MLP(width, hidden if second_hidden is None else second_hidden, out=0, dropout=dropout)
        for mlp in (self.first, self.second):
            if mlp.width % heads:
                raise ModelError(f"finalmlp: last hidden width {mlp.width} is not a multiple of heads={heads}")
        self.first_gate = Gate(vectors.slots, first_gate, embedding_dim, gate_hidden, width)
        self.second_gate = Gate(vectors.slots, second_gate, embedding_dim, gate_hidden, width)
        self.fusion = BilinearFusion(self.first.width, self.second.width, heads=heads)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        x, v = self.flat(inputs), inputs["embedding"]
        return self.fusion(self.first(x * self.first_gate(v)), self.second(x * self.second_gate(v)))


class Gate(TensorModule):
    """A factor between 0 and 2 for every number of the input; near 1 at first. Gives [B, width], or [1, width]."""

    def __init__(self, slots: Sequence[str], seen: Sequence[str], dim: int, hidden: Widths, width: int) -> None:
        super().__init__()
        for slot in seen:
            if slot not in slots:
                raise ModelError(
                    f"finalmlp gate: no slot {slot!r};{did_you_mean(slot, slots)} Slots: {', '.join(slots)}"
                )
        # Not persistent: it follows from the job, so a checkpoint need not hold it.
        self.register_buffer(
            "seen", torch.tensor([slots.index(slot) for slot in seen], dtype=torch.int64), persistent=False
        )
        self.seen: Tensor
        self.constant = None if seen else nn.Parameter(torch.randn(1, dim))
        self.mlp = MLP(dim * max(1, len(seen)), hidden, out=0)
        self.out = linear(self.mlp.width, width, gain="linear")
        # Near 0, so that 2σ(g) is near 1: at first the gate passes its input on almost unchanged.
        nn.init.normal_(self.out.weight, std=0.01)

    def forward(self, v: Tensor) -> Tensor:
        context = v.index_select(1, self.seen).flatten(1) if self.constant is None else self.constant
        return 2 * torch.sigmoid(self.out(self.mlp(context)))
