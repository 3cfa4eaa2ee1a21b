"""A job's request for a model: what is wrong with it, and what follows from it, before the model is built.

For models of the zoo this needs no PyTorch: their signatures are in `zoo_signatures.py`. A class of the user's own is
imported, and PyTorch with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clickline.config.model import ModelSettings
from clickline.data.embeddings import Fields
from clickline.errors import JobError, JobProblem, ModelError
from clickline.models.parameters import ModelClass, class_problems
from clickline.models.zoo_signatures import SIGNATURES


def model_problems(spec: ModelSettings, *, labels: Sequence[str]) -> Iterator[JobProblem]:
    """What is wrong with the request, as far as that is known before the model is built; all of it at once."""
    try:
        signature = signature_of(spec.name)
    except (ModelError, JobError) as error:
        yield JobProblem("model.name", str(error).removeprefix("model.name: "))
        return
    yield from class_problems(signature, spec, labels=labels, zoo=SIGNATURES)


def signature_of(name: str) -> ModelClass:
    """What has the signature of the model's `__init__`: for a model that is not of the zoo, its class."""
    if name in SIGNATURES:
        return SIGNATURES[name]
    from clickline.models.registry import model_class

    return model_class(name)


def known_tables(spec: ModelSettings, fields: Fields) -> frozenset[str] | None:
    """Kinds of tables that the model will have, of a request without problems; None if it must be built to find out."""
    signature = SIGNATURES.get(spec.name)
    if signature is None or signature.tables is None or not fields.pooled:
        return None
    if any(name in spec.params for name in signature.slot_parameters):
        return None
    return frozenset(signature.tables)
