"""From the job's `model` section to a built model: a name of the zoo, or a class of the user's own."""

from __future__ import annotations

from clickline.config.loading.suggestions import did_you_mean
from clickline.config.model import ModelSettings
from clickline.data.embeddings import Fields
from clickline.errors import JobProblem, ModelError
from clickline.models.base import Model
from clickline.models.parameters import Parameters, class_problems
from clickline.models.zoo.autoint import AutoInt
from clickline.models.zoo.dcn_v2 import DCNV2
from clickline.models.zoo.deepfm import DeepFM
from clickline.models.zoo.din import DIN
from clickline.models.zoo.dnn import DNN
from clickline.models.zoo.ffm import FFM
from clickline.models.zoo.fibinet import FiBiNET
from clickline.models.zoo.finalmlp import FinalMLP
from clickline.models.zoo.fm import FM
from clickline.models.zoo.lr import LR
from clickline.models.zoo.mmoe import MMoE
from clickline.models.zoo.wide_deep import WideDeep
from clickline.models.zoo.xdeepfm import XDeepFM
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
            f"model.name: unknown model {name!r};{did_you_mean(name, _ZOO)} known: {', '.join(_ZOO)};"
            " or your own as module:Class or path/model.py:Class"
        )
    return _ZOO[name]


def build_model(spec: ModelSettings, fields: Fields) -> Model:
    """Build the model that the job asks for, or say everything that is wrong with the request."""
    cls = model_class(spec.name)
    if problems := list(class_problems(cls, spec, labels=fields.labels, zoo=_ZOO)):
        raise ModelError("\n".join(_told(problem) for problem in problems))
    try:
        return cls(fields, **Parameters(cls).arguments(spec))
    except TypeError as error:
        raise ModelError(f"model {spec.name} could not be built: {error}") from error


def _told(problem: JobProblem) -> str:
    """The key is part of the message only where the message does not say what it is about."""
    return f"{problem.key}: {problem.message}" if problem.key.startswith("model.params") else problem.message
