"""A trial build of a job's model, to see whether its class accepts the job and which tables it declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from clickline.config.model import ModelSettings
from clickline.data.embeddings import Fields
from clickline.models.base import Model
from clickline.models.registry import build_model

_FILLS = (torch.nn.init.normal_, torch.Tensor.normal_, torch.Tensor.uniform_, torch.Tensor.fill_, torch.Tensor.zero_)
_SCALES = (torch.Tensor.mul, torch.Tensor.abs)
"""What initialisers of parameters call, and what is done to the numbers that they have drawn: both keep the shape."""


def tables_of_built_model(spec: ModelSettings, fields: Fields) -> frozenset[str]:
    """Kinds of tables that the model declares. Raises what its class raises."""
    return frozenset(str(embedding.kind) for embedding in built_model(spec, fields).embeddings.values())


def built_model(spec: ModelSettings, fields: Fields) -> Model:
    """The model. Raises what its class raises. Models of the zoo are built without memory for their parameters."""
    # Building draws random numbers; a check must not change the random state of the program that called it.
    state = torch.get_rng_state()
    try:
        if ":" in spec.name:
            return build_model(spec, fields)
        with torch.device("meta"), _WithoutInitialisation():
            return build_model(spec, fields)
    finally:
        torch.set_rng_state(state)


class _WithoutInitialisation(TorchFunctionMode):
    """Leaves parameters as they are: they have no memory to fill, and PyTorch would load its compiler for it."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _FILLS + _SCALES:
            return args[0] if args else (kwargs or {})["tensor"]  # functions of torch.nn.init are called by name
        return func(*args, **(kwargs or {}))
