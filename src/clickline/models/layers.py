"""Blocks that many models are made of: the hidden layers, the first-order part, the activations.

Ways to let features interact (FM, cross, CIN, attention, …) are in `interactions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from clickline.models.parameter_types import Activation, Widths


class TensorModule(nn.Module):
    """A module whose call is typed: it returns one tensor."""

    __call__: Callable[..., Tensor]


class FirstOrder(TensorModule):
    """bias + the weights of a row's values, summed + w · dense: logistic regression, before the sigmoid. Gives [B]."""

    def __init__(self, dense: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        # Without dense numbers there is no weight at all: an empty parameter would only trouble optimizers and export.
        self.weight = nn.Parameter(torch.zeros(dense)) if dense else None

    def forward(self, weights: Tensor, dense: Tensor | None = None) -> Tensor:
        logits = weights.flatten(1).sum(1) + self.bias
        return logits if self.weight is None or dense is None else logits + dense @ self.weight


class MLP(nn.Sequential):
    """Hidden layers (linear, activation, dropout), then a linear one of width `out` unless that is 0."""

    __call__: Callable[..., Tensor]

    def __init__(
        self, width: int, hidden: Widths, *, out: int = 1, dropout: float = 0.0, activation: Activation = "relu"
    ) -> None:
        layers: list[nn.Module] = []
        before = width
        for size in hidden:
            layers += [linear(before, size, gain="relu"), activate(activation, size)]
            if dropout:
                layers.append(nn.Dropout(dropout))
            before = size
        if out:
            layers.append(linear(before, out, gain="linear"))
        super().__init__(*layers)
        self.width = out or before
        """Width of the output."""


def linear(width: int, out: int, *, gain: Literal["relu", "linear"]) -> nn.Linear:
    """He's start before a rectifier, Glorot's before an output; biases start at 0."""
    layer = nn.Linear(width, out)
    if gain == "relu":
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    else:
        nn.init.xavier_normal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def activate(name: Activation, width: int) -> nn.Module:
    if name == "relu":
        return nn.ReLU(inplace=True)  # of what a linear layer has just made, and nobody else looks at
    return nn.PReLU(width) if name == "prelu" else Dice(width)


class Dice(TensorModule):
    """p·x + (1 - p)·α·x, where p is the sigmoid of x standardised over the batch (Zhou et al. 2018): a PReLU whose
    bend moves with the data.

    Beware: mean and variance for prediction are running averages, kept in buffers, which no optimizer moves.
    """

    def __init__(self, width: int, *, momentum: float = 0.1, epsilon: float = 1e-8) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(width))
        self.momentum, self.epsilon = momentum, epsilon
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))
        self.mean: Tensor
        self.variance: Tensor

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """x: [rows, width]; weight: [rows], 0 for rows that are padding and must not count."""
        mean, variance = self.mean, self.variance
        if self.training:
            # Clamped, since a batch may have empty histories only: all weights are 0 then, and the mean is 0.
            share = torch.full_like(x[:, 0], 1 / len(x)) if weight is None else weight / weight.sum().clamp(min=1)
            mean = share @ x
            variance = share @ (x - mean).square()
            # The gradient flows through the mean and variance of this batch, as in batch normalisation, not through the
            # running averages.
            with torch.no_grad():
                self.mean.lerp_(mean.detach(), self.momentum)
                self.variance.lerp_(variance.detach(), self.momentum)
        p = torch.sigmoid((x - mean) * torch.rsqrt(variance + self.epsilon))
        return x * (p + (1 - p) * self.alpha)
