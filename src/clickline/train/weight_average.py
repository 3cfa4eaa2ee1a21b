"""A moving average of the dense parameters, which predicts better than any one step of them.

The last steps of a run pull the parameters to and fro; their average stays in the middle. It costs one pass over the
parameters a step and changes nothing in training: only predictions, and what is published, use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from clickline.train.average_share import average_share


class Average:
    """A moving average of a model's parameters. With `keep` 0 there is none, and the parameters themselves are used."""

    def __init__(self, model: nn.Module, *, keep: float) -> None:
        self._keep = keep
        self._parameters = dict(model.named_parameters()) if keep > 0 else {}
        self._averages = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self._moving = [name for name, parameter in self._parameters.items() if parameter.requires_grad]
        """A frozen parameter keeps the average that the run was given, too."""

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Update the average after a step."""
        if self._moving:
            share = average_share(self._keep, step)
            averages = [self._averages[name] for name in self._moving]
            torch._foreach_lerp_(averages, [self._parameters[name] for name in self._moving], share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model with its average instead of its parameters."""
        # Tensors are exchanged, not copied: this happens for every batch that is predicted.
        held = {name: parameter.data for name, parameter in self._parameters.items()}
        try:
            for name, parameter in self._parameters.items():
                parameter.data = self._averages[name]
            yield
        finally:
            for name, parameter in self._parameters.items():
                parameter.data = held[name]

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint."""
        return dict(self._averages)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `tensors` returned; the parameters themselves where a checkpoint has no average."""
        for name, average in self._averages.items():
            average.copy_(tensors.get(name, self._parameters[name].detach()))
