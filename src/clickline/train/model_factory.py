"""A job's model, the same in every process: built of the data's schema, with weights that follow from the seed."""

from __future__ import annotations

import torch

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.models.base import Model
from clickline.models.registry import build_model
from clickline.train.frozen.frozen_parts import freeze


def build(job: Job, schema: Schema) -> Model:
    """The model with the weights it starts from. Seeds PyTorch's random state as a side effect."""
    torch.manual_seed(job.seed)
    model = build_model(job.model, schema.fields)
    freeze(model, job.train.frozen)
    return model
