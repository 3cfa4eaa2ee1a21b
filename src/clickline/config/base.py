"""What every part of the job has in common: unknown keys are errors, values never change once read."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the job. Frozen, so that nobody downstream mutates what the user wrote."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True)
