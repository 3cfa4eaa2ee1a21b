"""From the job's `model` section to a built model: a name of the zoo, or a class of the user's own.

Parameters are checked against the annotations of the class's `__init__`, so a model's signature is also its
documentation and its validation.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from clickline.config.model import Model as Spec
from clickline.config.suggesting import did_you_mean
from clickline.data.declarations import Fields
from clickline.errors import ModelError
from clickline.models.autoint import AutoInt
from clickline.models.base import Model
from clickline.models.dcn_v2 import DCNV2
from clickline.models.deepfm import DeepFM
from clickline.models.din import DIN
from clickline.models.dnn import DNN
from clickline.models.ffm import FFM
from clickline.models.fibinet import FiBiNET
from clickline.models.finalmlp import FinalMLP
from clickline.models.fm import FM
from clickline.models.lr import LR
from clickline.models.mmoe import MMoE
from clickline.models.wide_deep import WideDeep
from clickline.models.xdeepfm import XDeepFM
from clickline.plugins import load_class

_ZOO: dict[str, type[Model]] = {
    "lr": LR,
    "fm": FM,
    "ffm": FFM,
    "wide_deep": WideDeep,
    "dnn": DNN,
    "deepfm": DeepFM,
    "dcn_v2": DCNV2,
    "xdeepfm": XDeepFM,
    "autoint": AutoInt,
    "fibinet": FiBiNET,
    "finalmlp": FinalMLP,
    "din": DIN,
    "mmoe": MMoE,
}

_SHARED = ("embedding_dim", "hidden", "dropout")
"""Keys of the job's `model` section that are handed to every model that takes them, unless they are null."""


def model_names() -> tuple[str, ...]:
    """Names of the zoo, simple models first."""
    return tuple(_ZOO)


def model_class(name: str) -> type[Model]:
    """The class behind `model.name`."""
    if ":" in name:
        found = load_class(name, base=Model, what="model")
        assert issubclass(found, Model)  # noqa: S101 - load_class has checked it; this tells mypy
        return found
    if name not in _ZOO:
        raise ModelError(
            f"model.name: unknown model {name!r};{did_you_mean(name, _ZOO)} Known: {', '.join(_ZOO)};"
            " or your own as module:Class or path/model.py:Class"
        )
    return _ZOO[name]


def build_model(spec: Spec, fields: Fields) -> Model:
    """Build the model that the job asks for, or say what is wrong with the request."""
    cls = model_class(spec.name)
    if len(fields.labels) > 1 and not cls.several_labels:
        able = ", ".join(name for name, model in _ZOO.items() if model.several_labels)
        raise ModelError(
            f"model {spec.name} predicts one label, but features.labels has {len(fields.labels)}"
            f" ({', '.join(fields.labels)}); name one, or use a model for several: {able}, or your own with"
            " several_labels = True"
        )
    arguments = _arguments(cls, spec)
    try:
        return cls(fields, **arguments)
    except TypeError as error:
        raise ModelError(f"model {spec.name} could not be built: {error}") from error


def _arguments(cls: type[Model], spec: Spec) -> dict[str, Any]:
    """Keyword arguments for the class: the shared ones it takes, then `params`."""
    parameters = list(inspect.signature(cls).parameters.values())[1:]  # the first is `fields`
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    known = {p.name: p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    own = [name for name in known if name not in _SHARED]
    for name in spec.params:
        if name in _SHARED:
            raise ModelError(f"model.params.{name}: write it as model.{name}")
        if name not in known and not takes_any:
            listed = ", ".join(own) or f"none, {spec.name} has no parameters of its own"
            raise ModelError(f"model.params.{name}: unknown;{did_you_mean(name, own)} Known: {listed}")
    for name in own:
        if known[name].default is inspect.Parameter.empty and name not in spec.params:
            raise ModelError(f"model.params.{name}: needed by {spec.name}, which has no default for it")
    given = {name: getattr(spec, name) for name in _SHARED if takes_any or name in known}
    shared = {name: value for name, value in given.items() if value is not None}
    hints = _hints(cls)
    return shared | {name: _checked(name, value, hints) for name, value in spec.params.items()}


def _hints(cls: type[Model]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(cls.__init__, include_extras=True)
    except NameError:  # a user's class may annotate with names that exist for the type checker only
        return {}


def _checked(name: str, value: Any, hints: Mapping[str, Any]) -> Any:
    """The value as the annotation wants it; annotations that pydantic cannot check let everything pass."""
    if name not in hints:
        return value
    try:
        adapter = TypeAdapter[Any](hints[name], config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticSchemaGenerationError:
        return value
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "".join(f"[{part}]" for part in first["loc"] if isinstance(part, int))
        raise ModelError(f"model.params.{name}{where}: {first['input']!r}: {first['msg']}") from error
