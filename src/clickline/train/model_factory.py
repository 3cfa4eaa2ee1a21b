"""A job's model, the same in every process: what the data offers, and weights that follow from the seed."""

from __future__ import annotations

import torch

from clickline.config import Job
from clickline.data.embeddings import Fields
from clickline.data.schema import Schema
from clickline.models.base import Model
from clickline.models.registry import build_model


def build(job: Job, schema: Schema) -> Model:
    """The model with the weights it starts from. Seeds PyTorch's random state as a side effect."""
    torch.manual_seed(job.seed)
    return build_model(job.model, fields_of(schema))


def fields_of(schema: Schema) -> Fields:
    """What rows of this schema offer to a model."""
    return Fields(
        slots=tuple(slot.name for slot in schema.slots),
        pooling=tuple(slot.pooling for slot in schema.slots),
        dense=schema.dense_width,
        labels=tuple(schema.labels),
        keys_of=tuple(slot.keys_of or "" for slot in schema.slots),
    )
