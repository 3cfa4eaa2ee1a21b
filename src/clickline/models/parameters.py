"""A model's parameters: what its class takes, what the job gives it, and everything that is wrong with that.

Values are checked against the annotations of the class's `__init__`, so a model's signature is also its documentation
and its validation.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from clickline.config.loading.suggestions import did_you_mean
from clickline.config.model import ModelSettings
from clickline.errors import JobProblem

SHARED = ("embedding_dim", "hidden", "dropout")
"""Keys of the job's `model` section that are handed to every model that takes them, unless they are null."""


class ModelClass(Protocol):
    """A subclass of Model, or a signature of zoo_signatures.py, which needs no PyTorch."""

    @property
    def several_labels(self) -> bool: ...


def class_problems(
    cls: ModelClass, spec: ModelSettings, *, labels: Sequence[str], zoo: Mapping[str, ModelClass]
) -> Iterator[JobProblem]:
    """What is wrong with a request for this class; `zoo` has the models to use instead."""
    if len(labels) > 1 and not cls.several_labels:
        able = ", ".join(name for name, other in zoo.items() if other.several_labels)
        yield JobProblem(
            "features.labels",
            f"model {spec.name} predicts one label, but features.labels has {len(labels)} ({', '.join(labels)}); name "
            f"one, or use a model for several: {able}, or your own with several_labels = True",
        )
    yield from Parameters(cls).problems(spec)


class Parameters:
    """The keyword arguments of a model's class, beside `fields`."""

    def __init__(self, cls: ModelClass) -> None:
        given = list(inspect.signature(cast(Any, cls)).parameters.values())[1:]  # the first is `fields`
        self._takes_any = any(p.kind is p.VAR_KEYWORD for p in given)
        self._known = {p.name: p for p in given if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
        self._own = [name for name in self._known if name not in SHARED]
        self._hints = _hints(cls)

    @property
    def names(self) -> tuple[str, ...]:
        """All parameters that the model names."""
        return tuple(self._known)

    @property
    def shared(self) -> tuple[str, ...]:
        """Those of embedding_dim, hidden and dropout that the model takes."""
        return tuple(name for name in SHARED if self._takes_any or name in self._known)

    def problems(self, spec: ModelSettings) -> Iterator[JobProblem]:
        """Every parameter of the job that the model cannot take, and every one that it lacks."""
        for name, value in spec.params.items():
            key = f"model.params.{name}"
            if name in SHARED:
                yield JobProblem(key, f"write it as model.{name}")
            elif name not in self._known and not self._takes_any:
                listed = ", ".join(self._own) or f"none, {spec.name} has no parameters of its own"
                yield JobProblem(key, f"unknown;{did_you_mean(name, self._own)} known: {listed}")
            else:
                for where, message in self._mistakes(name, value):
                    yield JobProblem(key + where, message)
        for name in self._own:
            if self._known[name].default is inspect.Parameter.empty and name not in spec.params:
                yield JobProblem(f"model.params.{name}", f"needed by {spec.name}, which has no default for it")

    def arguments(self, spec: ModelSettings) -> Mapping[str, Any]:
        """Keyword arguments for the class, of a job without problems: the shared ones it takes, then `params`."""
        shared = {name: value for name in self.shared if (value := getattr(spec, name)) is not None}
        return shared | {name: self._converted(name, value) for name, value in spec.params.items()}

    def _mistakes(self, name: str, value: Any) -> Iterator[tuple[str, str]]:
        try:
            self._converted(name, value)
        except ValidationError as error:
            for finding in error.errors(include_url=False):
                where = "".join(f"[{part}]" for part in finding["loc"] if isinstance(part, int))
                yield where, f"{finding['input']!r}: {finding['msg']}"

    def _converted(self, name: str, value: Any) -> Any:
        """The value as the annotation wants it; annotations that pydantic cannot check let everything pass."""
        if name not in self._hints:
            return value
        try:
            adapter = TypeAdapter[Any](self._hints[name], config=ConfigDict(arbitrary_types_allowed=True))
        except PydanticSchemaGenerationError:
            return value
        return adapter.validate_python(value)


def _hints(cls: ModelClass) -> Mapping[str, Any]:
    try:
        # Extras are the limits in Annotated, which `Size` and `Share` consist of.
        return typing.get_type_hints(cast(Any, cls).__init__, include_extras=True)
    except NameError:  # a user's class may annotate with names that exist for the type checker only
        return {}
