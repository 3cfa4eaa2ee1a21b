"""The forward pass; an exception in a user's model becomes a ModelError."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path

import torch

from clickline.errors import ModelError
from clickline.models.base import Model

_OURS = "clickline.models."


def logits_of(model: Model, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """What the model's `forward` gives. Raises ModelError if a model of the user's own fails."""
    try:
        return model(inputs)
    except Exception as error:
        if type(model).__module__.startswith(_OURS) or isinstance(error, ModelError):
            raise  # a mistake of ours should show where it is
        raise ModelError(
            f"{type(model).__name__}.forward failed with {type(error).__name__}: {error}{_where(error)}; "
            f"its inputs were {_shapes(inputs)}"
        ) from error


def _where(error: Exception) -> str:
    """The innermost line that is neither PyTorch's nor ours."""
    ours, torchs = Path(__file__).parents[1], Path(torch.__file__).parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if not file.is_relative_to(ours) and not file.is_relative_to(torchs):
            return f" ({file.name}, line {frame.lineno}: {frame.line})"
    return ""


def _shapes(inputs: Mapping[str, torch.Tensor]) -> str:
    return ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in inputs.items())
