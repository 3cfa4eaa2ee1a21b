"""Requests about the model: a trainer, which has built it, describes it to the coordinator, and servers ask it."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np

from clickline.data.embeddings import Embedding
from clickline.errors import PeerError
from clickline.ps.initial_model import InitialModel
from clickline.ps.protocol.framing import Arrays
from clickline.ps.protocol.member_messages import MemberReply, MemberRequest

_BUFFER = "buffer."


class ModelDescription(msgspec.Struct, frozen=True):
    """What a model declares. Its numbers are arrays: `values`, `random_state`, and `buffer.NAME` of each buffer."""

    embeddings: list[Embedding]
    shapes: list[tuple[str, tuple[int, ...]]]
    """Names and shapes of the dense parameters, in the order in which they lie in `values`."""


class DescribeModelReply(MemberReply):
    """Noted. The first description counts."""


class DescribeModelRequest(MemberRequest):
    """A trainer that was refused with model_wanted says what the model is, and joins again."""

    operation: ClassVar[str] = "describe_model"
    reply: ClassVar[type[MemberReply]] = DescribeModelReply
    model: ModelDescription
    """Its declarations; arrays: `values`, `random_state`, `buffer.NAME` of each buffer."""


class ModelReply(MemberReply):
    """What the model is. Refusals: not_ready, as long as no trainer has described it, and run_over."""

    model: ModelDescription | None = None
    """As it was described, with the same arrays."""


class ModelRequest(MemberRequest):
    """A server wants to know what the model is; the coordinator holds the request back for a while if it has to."""

    operation: ClassVar[str] = "model"
    reply: ClassVar[type[MemberReply]] = ModelReply


REQUESTS: tuple[type[MemberRequest], ...] = (DescribeModelRequest, ModelRequest)
"""In the order in which they are used."""


def described(model: InitialModel) -> tuple[ModelDescription, Arrays]:
    """A model as it is sent."""
    arrays: Arrays = {"values": model.values, "random_state": model.random_state}
    arrays |= {_BUFFER + name: array for name, array in model.buffers.items()}
    return ModelDescription(list(model.embeddings.values()), list(model.shapes.items())), arrays


def model_in(description: ModelDescription, arrays: Arrays) -> InitialModel:
    """The reverse of `described`. Raises PeerError if the arrays do not fit."""
    # Copies: what comes in a message is a view into it.
    kept = {name: np.array(array) for name, array in arrays.items()}
    try:
        return InitialModel(
            embeddings={embedding.name: embedding for embedding in description.embeddings},
            shapes=dict(description.shapes),
            values=kept["values"],
            buffers={name.removeprefix(_BUFFER): a for name, a in kept.items() if name.startswith(_BUFFER)},
            random_state=kept["random_state"],
        )
    except (KeyError, ValueError) as error:
        raise PeerError(f"a model's description cannot be used: {error}") from error
