"""Models: what they declare, what they are made of, and the zoo.

`clickline.models.Model` is the base class of a model of your own; docs/models.md shows one. Names are looked up when
they are first used: a job's parameters are checked in this package too, and that must not wait for PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clickline.data.embeddings import Embedding, Fields
    from clickline.models.base import Model
    from clickline.models.registry import build_model, model_class, model_names

__all__ = ["Embedding", "Fields", "Model", "build_model", "model_class", "model_names"]

_HOMES = {
    "Embedding": "clickline.data.embeddings",
    "Fields": "clickline.data.embeddings",
    "Model": "clickline.models.base",
    "build_model": "clickline.models.registry",
    "model_class": "clickline.models.registry",
    "model_names": "clickline.models.registry",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'clickline.models' has no attribute {name!r}")
