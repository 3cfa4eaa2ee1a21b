"""The forward pass: from inputs to what a model predicts; an exception in a user's model becomes a ModelError."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path

import torch

from clickline.data.schema import Schema
from clickline.errors import ModelError
from clickline.models.base import Model

_OURS = "clickline.models."


def logits_of(model: Model, inputs: dict[str, torch.Tensor], *, means: torch.Tensor | None = None) -> torch.Tensor:
    """What the model's `forward` gives, with the labels' means added if there are any.

    Raises ModelError if a model of the user's own fails.
    """
    try:
        return with_means(model(inputs), means)
    except Exception as error:
        if type(model).__module__.startswith(_OURS) or isinstance(error, ModelError):
            raise  # a mistake of ours should show where it is
        raise ModelError(
            f"{type(model).__name__}.forward failed with {type(error).__name__}: {error}{_where(error)}; "
            f"its inputs were {_shapes(inputs)}"
        ) from error


def means_of(schema: Schema) -> torch.Tensor | None:
    """The labels' means, which a model of numbers starts from; None for clicks."""
    return torch.tensor(schema.label_means) if schema.label_means else None


def with_means(output: torch.Tensor, means: torch.Tensor | None) -> torch.Tensor:
    """A model's output, [rows] or [rows, labels], with the labels' means added."""
    if means is None:
        return output
    if output.dim() == 1:
        return output + means[0]
    # Added to another number of columns, the means would broadcast, and the loss would not notice the mistake.
    return output + means if output.shape[1:] == means.shape else output


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
