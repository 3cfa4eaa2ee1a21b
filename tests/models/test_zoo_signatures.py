"""What jobs are checked against without PyTorch is what the zoo's classes say."""

from __future__ import annotations

import inspect
import random
import typing
from typing import Any

import pytest

from clickline.config.model import ModelSettings
from clickline.data.embeddings import Fields
from clickline.models import model_class, model_names
from clickline.models.model_requests import known_tables, model_problems
from clickline.models.parameters import SHARED
from clickline.models.signature_source import FILE, source
from clickline.models.zoo_signatures import SIGNATURES
from clickline.train.trial_build import tables_of_built_model

MUST_BE_BUILT = {"fibinet", "finalmlp", "din"}
"""Their classes refuse jobs for reasons of their own."""
VALUES: list[Any] = [0, 1, 2, 7, 0.5, [], [1], [5, 3], True, "parallel", "stacked", "relu", "each"]
FIELDS = [
    Fields(("item",), ("sum",)),
    Fields(("item", "user", "genre"), ("sum", "mean", "max"), dense=4),
    Fields(("item", "seen"), ("sum", "sequence"), dense=1, keys_of=("", "item")),
]


def test_the_file_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == source(), "make reference"


def test_every_model_of_the_zoo_has_a_signature() -> None:
    assert tuple(SIGNATURES) == model_names()
    assert {name for name, signature in SIGNATURES.items() if signature.tables is None} == MUST_BE_BUILT


@pytest.mark.parametrize("name", model_names())
def test_a_signature_means_what_the_class_means(name: str) -> None:
    signature, cls = SIGNATURES[name], model_class(name)
    assert inspect.signature(signature).parameters == inspect.signature(cls).parameters
    hints = [typing.get_type_hints(one.__init__, include_extras=True) for one in (signature, cls)]
    assert repr(hints[0]) == repr(hints[1])
    assert signature.several_labels == cls.several_labels


def settings_of(name: str) -> list[ModelSettings]:
    """Jobs that the model's annotations allow: small and empty values of all its parameters, drawn together."""
    parameters = [p for p in inspect.signature(SIGNATURES[name]).parameters if p not in ("fields", *SHARED)]
    allowed = {
        parameter: [value for value in VALUES if is_right(ModelSettings(name=name, params={parameter: value}))]
        for parameter in parameters
        if parameter not in SIGNATURES[name].slot_parameters
    }
    draw = random.Random(name)
    return [
        ModelSettings(
            name=name,
            embedding_dim=draw.choice([None, 1, 6]),
            hidden=draw.choice([[], [1], [6, 4]]),
            dropout=draw.choice([0, 0.9]),
            params={parameter: draw.choice(values) for parameter, values in allowed.items()},
        )
        for _ in range(30)
    ]


def is_right(settings: ModelSettings) -> bool:
    return not list(model_problems(settings, labels=["click"]))


@pytest.mark.parametrize("name", [name for name in model_names() if name not in MUST_BE_BUILT])
def test_tables_that_are_known_are_those_that_are_built(name: str) -> None:
    for settings in settings_of(name):
        for fields in FIELDS:
            known = known_tables(settings, fields)
            assert known is not None
            assert known == tables_of_built_model(settings, fields)


def test_some_jobs_must_be_built() -> None:
    assert known_tables(ModelSettings(name="wide_deep"), FIELDS[0]) == {"linear", "embedding"}
    assert known_tables(ModelSettings(name="wide_deep", params={"wide_slots": ["item"]}), FIELDS[0]) is None
    assert known_tables(ModelSettings(name="deepfm"), Fields((), (), dense=3)) is None
    assert known_tables(ModelSettings(name="fibinet"), FIELDS[1]) is None
    assert known_tables(ModelSettings(name="product.py:Product"), FIELDS[1]) is None
