"""Models: what they declare, what they are made of, and the zoo.

`clickline.models.Model` is the base class of a model of your own; docs/models.md shows one.
"""

from clickline.data.embeddings import Embedding, Fields
from clickline.models.base import Model
from clickline.models.registry import build_model, model_class, model_names

__all__ = ["Embedding", "Fields", "Model", "build_model", "model_class", "model_names"]
