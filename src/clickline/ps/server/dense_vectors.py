"""A checkpoint's dense tensors, by name of the parameter, as the flat vectors of which each server has a block."""

from __future__ import annotations

import torch

from clickline.train.flat_parameters import Flat


def vectors(tensors: dict[str, torch.Tensor], flat: Flat, *, step: int) -> tuple[dict[str, torch.Tensor], int]:
    """A checkpoint's dense tensors as a DenseBlock's (value, average, optimizer state), and how many steps it took.

    `step` is the checkpoint's, where no server wrote it: there each step was one of the optimizer.
    """
    out = {"value": flat.vector(_below(tensors, "model."))}
    averages = _below(tensors, "average.")
    out["average"] = flat.vector(averages) if averages else out["value"]
    states: dict[str, dict[str, torch.Tensor]] = {}
    for name in flat.named(flat.values):
        for key, tensor in _below(tensors, f"optimizer.{name}.").items():
            states.setdefault(key, {})[name] = tensor
    for key, named in states.items():
        whole = all(tensor.dim() for tensor in named.values())
        out[f"state.{key}"] = flat.vector(named) if whole else next(iter(named.values()))
    return out, int(tensors["steps"]) if "steps" in tensors else step


def _below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
