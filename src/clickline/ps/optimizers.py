"""The dense parameters' optimizer, as the job names it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from clickline.config.training import DenseOptimizer


def dense_optimizer(model: torch.nn.Module, spec: DenseOptimizer) -> torch.optim.Optimizer:
    """The optimizer that the job names, in PyTorch's fused form."""
    parameters = list(model.parameters())
    settings = {"lr": spec.learning_rate, "weight_decay": spec.weight_decay, "fused": True}
    kinds: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "sgd": torch.optim.SGD,
        "adagrad": torch.optim.Adagrad,
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
    }
    return kinds[spec.name](parameters, **settings)
