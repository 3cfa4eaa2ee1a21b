"""Dense parameters as one long vector, cut into blocks: server s of N keeps the s-th block and runs its optimizer
there.

Optimizers work number by number, so a block learns what it would have learned inside the whole, and any number of
servers gives the same model. (Clipping by norm needs the whole gradient, so trainers do that before they send.)
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor, nn

from clickline.config.training import DenseOptimizer
from clickline.train.dense_optimizer import dense_optimizer
from clickline.train.weight_average import Average


def block_of(size: int, *, part: int, parts: int) -> tuple[int, int]:
    """Where a server's block begins and ends in the vector."""
    return size * part // parts, size * (part + 1) // parts


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

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """A vector like `values`, by the names of the parameters."""
        out, place = {}, 0
        for name, parameter in self._parameters.items():
            out[name] = vector[place : place + parameter.numel()].view(parameter.shape)
            place += parameter.numel()
        return out

    def vector(self, named: dict[str, Tensor]) -> Tensor:
        """The reverse of `named`."""
        return torch.cat([named[name].reshape(-1) for name in self._parameters] or [torch.empty(0)])


class DenseBlock:
    """One server's share of the vector: values, optimizer state, and the average that predictions use."""

    def __init__(self, values: Tensor, *, optimizer: DenseOptimizer, keep: float) -> None:
        self._parameter = nn.Parameter(values.clone())
        holder = nn.ParameterDict({"block": self._parameter})
        self._optimizer = dense_optimizer(holder, optimizer)
        self._average = Average(holder, keep=keep)
        self.lock = threading.Lock()
        self.steps = 0

    def learn(self, gradient: Tensor) -> None:
        """One step of the optimizer. The caller holds the lock."""
        # With more servers than numbers a block is empty. Its steps still count, as on the other servers.
        if len(gradient) == 0:
            self.steps += 1
            return
        self._parameter.grad = gradient
        self._optimizer.step()
        self.steps += 1
        self._average.follow(self.steps)

    @torch.no_grad()
    def add(self, difference: Tensor) -> None:
        """Move by a difference that a trainer found on its own copy. The caller holds the lock."""
        self._parameter.add_(difference)
        self.steps += 1
        self._average.follow(self.steps)

    @property
    def values(self) -> Tensor:
        return self._parameter.detach()

    @property
    def average(self) -> Tensor:
        """What predictions use: the values themselves where the job wants no average."""
        return self._average.tensors().get("block", self.values)

    def tensors(self) -> dict[str, Tensor]:
        """Everything a checkpoint needs: value, average, and each vector or number of the optimizer's state."""
        out = {"value": self.values, "average": self.average}
        out |= {
            f"state.{name}": torch.as_tensor(v) for name, v in self._optimizer.state.get(self._parameter, {}).items()
        }
        return out

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], *, steps: int) -> None:
        """What `tensors` gave."""
        self._parameter.copy_(tensors["value"])
        self._average.restore({"block": tensors["average"]})
        state = {name[6:]: t.clone() for name, t in tensors.items() if name.startswith("state.")}
        if state:
            self._optimizer.state[self._parameter] = state
        self.steps = steps
