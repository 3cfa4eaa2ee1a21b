"""A trainer's model, built once, as soon as the schema is known: to describe it to the coordinator, and to train."""

from __future__ import annotations

import threading

import numpy as np
import torch

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.models.base import Model
from clickline.ps.initial_model import InitialModel
from clickline.train.model_factory import build


class BuiltModel:
    """The model, and what it was when it was built: it changes as it learns, and a new coordinator may ask again."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lock = threading.Lock()  # heartbeats may come upon a new coordinator while the trainer is being made
        self._built: tuple[Model, InitialModel] | None = None

    def model(self, schema: Schema) -> Model:
        return self._of(schema)[0]

    def initial(self, schema: Schema) -> InitialModel:
        return self._of(schema)[1]

    def _of(self, schema: Schema) -> tuple[Model, InitialModel]:
        with self._lock:
            if self._built is None:
                model = build(self._job, schema)
                self._built = model, initial_model(model)
            return self._built


def initial_model(model: Model) -> InitialModel:
    """What processes without PyTorch need to know of a model that was built just now."""
    parameters = dict(model.named_parameters())
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters.values()] or [torch.empty(0)])
    return InitialModel(
        embeddings=dict(model.embeddings),
        shapes={name: tuple(parameter.shape) for name, parameter in parameters.items()},
        values=flat.numpy(),
        buffers={name: np.array(buffer.numpy()) for name, buffer in model.named_buffers()},
        random_state=torch.get_rng_state().numpy(),
    )
