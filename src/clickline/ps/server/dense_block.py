"""A server's block of the dense parameters: values, optimizer state, and the average that predictions use.

Optimizers work number by number, so a block learns what it would have learned inside the whole, and any number of
servers gives the same model. (Clipping by norm needs the whole gradient, so trainers do that before they send.)
The rules are native (native/pserver/dense_optimizer.h), those of train/dense_optimizer.py without PyTorch, and the
state has the same names, so a checkpoint is continued by servers and by a single process alike.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.config.training import DenseOptimizer
from clickline.train.average_share import average_share

Floats = NDArray[np.float32]
_STATE = {"sgd": (), "adagrad": ("sum",), "adam": ("exp_avg", "exp_avg_sq"), "adamw": ("exp_avg", "exp_avg_sq")}
"""What each rule keeps of every number, beside how many steps it has taken."""


class DenseBlock:
    """One server's share of the vector."""

    def __init__(
        self, values: Floats, *, optimizer: DenseOptimizer, keep: float, frozen: NDArray[np.bool_] | None = None
    ) -> None:
        """`frozen`: which of the values keep what they start with, or are given by `restore`."""
        self.values: Floats = values.copy()
        self._optimizer, self._keep = optimizer, keep
        self._average: Floats | None = self.values.copy() if keep > 0 else None
        self._state: dict[str, NDArray[Any]] = {}
        if optimizer.name == "adagrad":  # its state is there from the start, as PyTorch has it
            self._begin()
        self._frozen = frozen if frozen is not None and frozen.any() else None
        self._keep_frozen()
        self.lock = threading.Lock()
        self.steps = 0

    def learn(self, gradient: Floats) -> None:
        """One step of the optimizer. The caller holds the lock."""
        # With more servers than numbers a block is empty. Its steps still count, as on the other servers.
        if len(gradient) == 0:
            self.steps += 1
            return
        if _STATE[self._optimizer.name] and not self._state:
            self._begin()
        self._apply(gradient)
        self._moved()

    def add(self, difference: Floats) -> None:
        """Move by a difference that a trainer found on its own copy. The caller holds the lock."""
        self.values += difference
        self._moved()

    @property
    def average(self) -> Floats:
        """What predictions use: the values themselves where the job wants no average."""
        return self.values if self._average is None else self._average

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything a checkpoint needs: value, average, and each vector or number of the optimizer's state."""
        return {
            "value": self.values,
            "average": self.average,
            **{f"state.{name}": array for name, array in self._state.items()},
        }

    def restore(self, arrays: dict[str, NDArray[Any]], *, steps: int) -> None:
        """What `arrays` gave."""
        self.values[:] = arrays["value"]
        if self._average is not None:
            self._average[:] = arrays["average"]
        state = {name[6:]: np.array(array) for name, array in arrays.items() if name.startswith("state.")}
        if state:
            self._state = state
        self._keep_frozen()
        self.steps = steps

    def _begin(self) -> None:
        self._state = {"step": np.zeros((), np.float32)}  # as PyTorch's fused kernels count
        self._state |= {name: np.zeros_like(self.values) for name in _STATE[self._optimizer.name]}

    def _apply(self, gradient: Floats) -> None:
        spec, state = self._optimizer, self._state
        rate = {"learning_rate": spec.learning_rate, "weight_decay": spec.weight_decay}
        if spec.name == "sgd":
            _native.dense_sgd(self.values, gradient, **rate)
            return
        state["step"] += np.float32(1)
        if spec.name == "adagrad":
            _native.dense_adagrad(self.values, state["sum"], gradient, **rate)
            return
        _native.dense_adam(
            self.values,
            state["exp_avg"],
            state["exp_avg_sq"],
            gradient,
            step=float(state["step"]),
            decoupled=spec.name == "adamw",
            **rate,
        )

    def _moved(self) -> None:
        """Count a step. Frozen values are put back: a decay of weights moves also what has no gradient."""
        # The native rules treat all numbers alike, which keeps them simple and fast; few jobs freeze anything, and
        # putting a part of the block back costs little beside a step.
        if self._frozen is not None:
            self.values[self._frozen] = self._frozen_values
        self.steps += 1
        if self._average is not None:
            _native.dense_average(self._average, self.values, share=average_share(self._keep, self.steps))
            if self._frozen is not None:
                self._average[self._frozen] = self._frozen_average

    def _keep_frozen(self) -> None:
        if self._frozen is not None:
            self._frozen_values, self._frozen_average = self.values[self._frozen], self.average[self._frozen]
