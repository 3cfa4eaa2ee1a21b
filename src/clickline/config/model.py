"""Which model, and its shape."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from clickline.config.section import Section


class ModelSettings(Section):
    name: Annotated[str, Field(min_length=1)] = "deepfm"
    """A model of the zoo, or one of your own: module:Class or path/model.py:Class."""
    embedding_dim: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Length of a slot's vector; null: the model's own, which is 10 (ffm: 4)."""
    hidden: list[Annotated[int, Field(ge=1, le=65_536)]] = [256, 128]
    """Widths of the hidden layers."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of hidden units dropped in training."""
    params: dict[str, Any] = {}
    """Further keyword arguments of the model's class; unknown ones are errors."""
