"""The job under check, with what is derived from it once: features, schema, model."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from clickline.config import Job
from clickline.config.features import Dense, Features, Slot
from clickline.config.loading.suggestions import closest
from clickline.config.validation.conditions import RunFacts
from clickline.config.validation.contradictions import lacks_features
from clickline.data.input_files import InputFiles
from clickline.data.schema import Schema, with_defaults
from clickline.data.schema_checks import feature_problems
from clickline.errors import ClicklineError, JobProblem
from clickline.models.model_requests import known_tables, model_problems, signature_of
from clickline.models.parameters import Parameters


class Subject:
    """A job, and the parts of a run that can be made of it without reading data or writing anything."""

    def __init__(self, job: Job, *, own_model: bool) -> None:
        """`own_model`: whether code of the user's may be loaded."""
        self.job = job
        self._model_known = own_model or ":" not in job.model.name
        self.build_error: Exception | None = None

    @cached_property
    def features(self) -> Features:
        return with_defaults(self.job.data, self.job.features)

    @property
    def lacks_features(self) -> bool:
        return lacks_features(self.job)

    @cached_property
    def schema(self) -> Schema | None:
        """What rows mean, without features that contradict others; None if that does not make them right.

        So a model that lacks a slot is found together with a slot that stands there twice.
        """
        mended = _mended(self.features)
        if any(feature_problems(self.job.data, mended)):
            return None
        return Schema.of(self.job.data, mended, loss=self.job.train.loss)

    @cached_property
    def files(self) -> InputFiles:
        return InputFiles(self.job.data)

    def column_problems(self) -> Iterable[JobProblem]:
        """Columns that the job reads and the data does not have."""
        return self.files.column_problems(self.schema) if self.schema is not None else ()

    def metric_problems(self) -> Iterator[JobProblem]:
        """What is wrong with the user's own metrics."""
        if self.job.metrics.own:
            from clickline.train.evaluation.metric_set import own_metric_problems

            yield from own_metric_problems(self.job.metrics, loss=self.job.train.loss)

    def request_problems(self) -> list[JobProblem]:
        """What is wrong with the model's name and parameters."""
        return list(model_problems(self.job.model, labels=self.features.labels)) if self._model_known else []

    def build_problems(self) -> Iterator[JobProblem]:
        """Why the model cannot be built of the job's features."""
        if self._tables is None and self.build_error is not None:
            yield JobProblem("model.name", _described(self.build_error))

    def frozen_problems(self) -> Iterator[JobProblem]:
        """Patterns of train.frozen that name nothing, or what cannot be frozen; of a model that can be built."""
        if self.job.train.frozen and self._tables is not None and self.schema is not None:
            from clickline.train.frozen.frozen_parts import frozen_problems
            from clickline.train.trial_build import built_model

            yield from frozen_problems(self.job, built_model(self.job.model, self.schema.fields))

    @property
    def facts(self) -> RunFacts:
        """For the table of effects; of a job without problems."""
        if self._tables is None:
            return RunFacts(self.job, self.features)
        return RunFacts(self.job, self.features, Parameters(signature_of(self.job.model.name)).shared, self._tables)

    @cached_property
    def _tables(self) -> frozenset[str] | None:
        """Kinds of tables that the model has, as declared; None if it is not known or cannot be built.

        Parameters that it cannot take are left out, and labels that are too many: those are problems of their own.
        """
        if not self._model_known or self.schema is None:
            return None
        wrong = [problem.key for problem in self.request_problems()]
        if "model.name" in wrong:
            return None
        left = {name: v for name, v in self.job.model.params.items() if not _names(wrong, f"model.params.{name}")}
        spec = self.job.model.model_copy(update={"params": left})
        fields = self.schema.fields
        if "features.labels" in wrong:
            fields = replace(fields, labels=fields.labels[:1])
        if list(model_problems(spec, labels=fields.labels)):
            return None
        if (known := known_tables(spec, fields)) is not None:
            return known
        from clickline.train.trial_build import tables_of_built_model

        try:
            return tables_of_built_model(spec, fields)
        except Exception as error:  # code of the user's own may raise anything
            self.build_error = error
            return None


def _mended(features: Features) -> Features:
    """The features without those that are there twice or know the outcome, and with the slots that keys_of meant."""
    # Backwards and, below, backwards again: of features with one name the first is kept, and the order stays.
    slots = {slot.name: slot for slot in reversed(features.slots) if not _knows(slot, features.labels)}
    for name, slot in slots.items():
        if slot.keys_of is not None and slot.keys_of not in slots:
            meant = closest(slot.keys_of, [other for other in slots if other != name])
            slots[name] = slot.model_copy(update={"keys_of": meant})
    dense = {one.name: one for one in reversed(features.dense) if not _knows(one, features.labels)}
    update = {
        "labels": list(dict.fromkeys(features.labels)),
        "slots": list(reversed(slots.values())),
        "dense": list(reversed(dense.values())),
    }
    return features.model_copy(update=update)


def _knows(feature: Slot | Dense, labels: list[str]) -> bool:
    return feature.name in labels or feature.column in labels


def _names(keys: list[str], key: str) -> bool:
    return any(other == key or other.startswith(f"{key}[") for other in keys)


def _described(error: Exception) -> str:
    if isinstance(error, ClicklineError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"could not be built: {type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
