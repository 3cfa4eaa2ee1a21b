"""A model's dense parameters as one long vector, of which each parameter server keeps a block."""

from __future__ import annotations

import torch
from torch import nn


class Flat:
    """A model whose parameters, and their gradients, lie in one vector each. The model itself does not notice."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._parameters = dict(model.named_parameters())
        self.values = torch.cat([p.detach().reshape(-1) for p in self._parameters.values()] or [torch.empty(0)])
        self.gradient = torch.zeros_like(self.values)
        self._attach()

    def _attach(self) -> None:
        # Parameters and gradients become views of the two vectors, so that one copy sends or receives all of them.
        place = 0
        for parameter in self._parameters.values():
            end = place + parameter.numel()
            parameter.data = self.values[place:end].view(parameter.shape)
            # Backward adds to a gradient that exists in place, so the views stay attached. The vector must be zeroed
            # before each step; `grad = None` would detach it.
            parameter.grad = self.gradient[place:end].view(parameter.shape)
            place = end
