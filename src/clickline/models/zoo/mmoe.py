"""Multi-gate mixture of experts (Ma, Zhao, Yi, Chen, Hong, Chi, 2018, KDD): several labels learn from the same experts,
each through its own gate (which experts count for this row) and its own tower.

`hidden` is the shape of one expert.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clickline.data.embeddings import Fields
from clickline.models.base import Model
from clickline.models.layers import MLP, linear
from clickline.models.parameter_types import Share, Size, Widths


class MMoE(Model):
    several_labels = True

    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        experts: Size = 4,
        tower: Widths = (64,),
    ) -> None:
        super().__init__(fields)
        width = self.embed("embedding", dim=embedding_dim).width + fields.dense
        tasks = len(fields.labels)
        self.shape = (tasks, experts)
        self.experts = nn.ModuleList(MLP(width, hidden, out=0, dropout=dropout) for _ in range(experts))
        self.gates = linear(width, tasks * experts, gain="linear")
        expert_width = hidden[-1] if hidden else width
        self.towers = nn.ModuleList(MLP(expert_width, tower, dropout=dropout) for _ in range(tasks))

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        x = self.flat(inputs)
        opinions = torch.stack([expert(x) for expert in self.experts], 1)  # [B, experts, width]
        shares = self.gates(x).unflatten(1, self.shape).softmax(2)  # [B, tasks, experts]
        # [B, tasks, experts] @ [B, experts, width]: all tasks in one batched matmul.
        mixed = shares @ opinions
        logits = torch.cat([tower(mixed[:, task]) for task, tower in enumerate(self.towers)], 1)
        return logits if len(self.towers) > 1 else logits.squeeze(1)
