"""The dense parameters' optimizer, as the job names it.

The rules are PyTorch's own functions in their fused form, and the state has the names and shapes that its classes give
it. The classes themselves are not used: the first step of any of them loads PyTorch's compiler, which no step here
needs and which takes a starting process about as long as all the rest of PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim.adagrad import adagrad
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from clickline.config.training import DenseOptimizer

_STATE = {"sgd": (), "adagrad": ("sum",), "adam": ("exp_avg", "exp_avg_sq"), "adamw": ("exp_avg", "exp_avg_sq")}
"""What each rule keeps of every number, beside how many steps it has taken."""


class Optimizer:
    """Updates the dense parameters by their gradients. Its `state` of each parameter is part of checkpoints."""

    def __init__(self, model: nn.Module, spec: DenseOptimizer) -> None:
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._vectors = _STATE[spec.name]
        self._rule = _rule(spec)
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}
        if spec.name == "adagrad":  # its state is there from the start, as PyTorch has it
            for parameter in self._parameters:
                self._begin(parameter)

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        # All parameters in one call of PyTorch's fused kernel: a loop over them would cost more than the arithmetic.
        moving = [parameter for parameter in self._parameters if parameter.grad is not None]
        # State begins with the first gradient of a parameter, as in PyTorch: a parameter that is never used has none in
        # checkpoints, and its step count does not grow.
        states = [self.state.get(parameter) or self._begin(parameter) for parameter in moving]
        vectors = [[state[name] for state in states] for name in self._vectors]
        steps = [[state["step"] for state in states]] if self._vectors else []
        self._rule(moving, [parameter.grad for parameter in moving], *vectors, *steps)

    def forget_gradients(self) -> None:
        """Drop all gradients, to which the next backward pass would add."""
        for parameter in self._parameters:
            parameter.grad = None

    def _begin(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        if not self._vectors:
            return {}
        # The fused kernels count steps in float32 tensors, not in Python numbers.
        state = {"step": torch.zeros((), dtype=torch.float32, device=parameter.device)}
        state |= {name: torch.zeros_like(parameter, memory_format=torch.preserve_format) for name in self._vectors}
        self.state[parameter] = state
        return state


def dense_optimizer(model: nn.Module, spec: DenseOptimizer) -> Optimizer:
    """The optimizer that the job names, with PyTorch's defaults for what the job does not name."""
    return Optimizer(model, spec)


def _rule(spec: DenseOptimizer) -> Callable[..., None]:
    """Takes parameters, gradients, then lists of what the state holds of each."""
    shared = {"lr": spec.learning_rate, "weight_decay": spec.weight_decay, "maximize": False, "fused": True}
    if spec.name == "sgd":
        plain: Callable[..., None] = sgd
        return lambda moving, gradients: plain(
            moving, gradients, [], momentum=0.0, dampening=0.0, nesterov=False, **shared
        )
    if spec.name == "adagrad":
        sums: Callable[..., None] = adagrad
        return partial(sums, lr_decay=0.0, eps=1e-10, **shared)
    moments: Callable[..., None] = adam if spec.name == "adam" else adamw
    betas = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False}
    return lambda moving, gradients, means, squares, steps: moments(
        moving, gradients, means, squares, [], steps, **betas, **shared
    )
