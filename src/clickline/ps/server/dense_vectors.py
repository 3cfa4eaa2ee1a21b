"""A checkpoint's dense arrays, by name of the parameter, as the flat vectors of which each server has a block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from clickline.ps.initial_model import InitialModel

Arrays = dict[str, NDArray[Any]]


def vectors(arrays: Mapping[str, NDArray[Any]], model: InitialModel, *, step: int) -> tuple[Arrays, int]:
    """A checkpoint's dense arrays as a DenseBlock's (value, average, optimizer state), and how many steps it took.

    `step` is the checkpoint's, where no server wrote it: there each step was one of the optimizer.
    """
    out = {"value": model.vector(_below(arrays, "model."))}
    averages = _below(arrays, "average.")
    out["average"] = model.vector(averages) if averages else out["value"]
    states: dict[str, Arrays] = {}
    for name in model.shapes:
        for key, array in _below(arrays, f"optimizer.{name}.").items():
            states.setdefault(key, {})[name] = array
    for key, named in states.items():
        whole = all(array.ndim for array in named.values())
        out[f"state.{key}"] = model.vector(named) if whole else next(iter(named.values()))
    return out, int(arrays["steps"]) if "steps" in arrays else step


def _below(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
