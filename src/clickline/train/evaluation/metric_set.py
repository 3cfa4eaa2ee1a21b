"""The figures that a job asks for: the usual ones, recall@k, and metrics of the user's own.

A metric of one's own is a function of labels and predicted probabilities (with a squared loss, predicted values), both
arrays of one value a row:

    def top_decile_ctr(labels, predictions):
        return labels[predictions.argsort()[-len(labels) // 10 :]].mean()

One that has a parameter `weights` or `groups` is handed them too, or None where the job has none. Returning None leaves
the figure out.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline.config.metric_settings import MetricSettings
from clickline.config.training import Loss
from clickline.errors import JobError, JobProblem
from clickline.plugins import load_function
from clickline.train.evaluation.calibration import CalibrationBin, calibration_bins
from clickline.train.evaluation.metrics import Floats, Metrics, measure, predictions_of
from clickline.train.evaluation.recall import recall_at
from clickline.train.evaluation.value_metrics import ValueMetrics, measure_values

_WHAT = "metrics.own"
FIGURES = tuple(one.name for one in fields(Metrics) if one.name != "more")
"""Names of the figures that every job on clicks has."""
_VALUE_FIGURES = tuple(one.name for one in fields(ValueMetrics) if one.name != "more")
"""Those of every job on labels that are numbers."""


@dataclass(frozen=True)
class OwnMetric:
    """A metric of the user's own."""

    name: str
    reference: str
    function: Callable[..., Any]
    optional: tuple[str, ...]
    """Which of `weights` and `groups` it wants."""

    @classmethod
    def load(cls, reference: str, *, loss: Loss = "log") -> OwnMetric:
        name = reference.rpartition(":")[2]
        if name in (_VALUE_FIGURES if loss == "squared" else FIGURES):
            raise JobError(f"{_WHAT}: {reference!r} has the name of a figure that is measured anyway; rename it")
        function = load_function(reference, what=_WHAT)
        try:
            known = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # written in C
            return cls(name, reference, function, ())
        takes_any = any(one.kind is one.VAR_KEYWORD for one in known)
        names = {one.name for one in known}
        wanted = tuple(name for name in ("weights", "groups") if takes_any or name in names)
        return cls(name, reference, function, wanted)

    def __call__(self, labels: NDArray[np.float64], predictions: NDArray[np.float64], **given: Any) -> float | None:
        try:
            value = self.function(labels, predictions, **{name: given[name] for name in self.optional})
            number = None if value is None else float(value)
        except Exception as error:
            raise JobError(
                f"{_WHAT}: {self.reference} failed on {len(labels)} rows with {type(error).__name__}: {error}"
            ) from error
        return number if number is not None and math.isfinite(number) else None


def own_metric_problems(settings: MetricSettings, *, loss: Loss) -> Iterator[JobProblem]:
    """What is wrong with the user's own metrics."""
    try:
        MetricSet.of(settings, loss=loss)
    except JobError as error:
        yield JobProblem("metrics.own", str(error).removeprefix(f"{_WHAT}: "))


@dataclass(frozen=True)
class MetricSet:
    """What is measured of predictions, for one job."""

    settings: MetricSettings = field(default_factory=MetricSettings)
    own: tuple[OwnMetric, ...] = ()
    loss: Loss = "log"

    @classmethod
    def of(cls, settings: MetricSettings, *, loss: Loss = "log") -> MetricSet:
        """Load the user's own metrics. Raises JobError if one cannot be."""
        own = tuple(OwnMetric.load(reference, loss=loss) for reference in settings.own)
        names = [one.name for one in own]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise JobError(f"{_WHAT} has two functions called {twice!r}; figures need different names, so rename one")
        return cls(settings, own, loss)

    def measure(
        self,
        logits: Floats,
        labels: Floats,
        *,
        weights: Floats | None = None,
        groups: NDArray[np.uint64] | None = None,
    ) -> Metrics | ValueMetrics:
        """All figures of one label's predictions."""
        settings = self.settings
        figures: Metrics | ValueMetrics
        more: dict[str, float | None] = {}
        if self.loss == "squared":
            figures = measure_values(logits, labels, weights=weights)
        else:
            figures = measure(
                logits,
                labels,
                weights=weights,
                groups=groups,
                threshold=settings.threshold,
                bins=settings.calibration_bins,
            )
            more = {f"recall@{k}": recall_at(logits, labels, groups, k=k) for k in settings.recall_at}
        if self.own and len(logits):
            wanted, predicted = labels.astype(np.float64), predictions_of(logits, loss=self.loss)
            for array in (wanted, predicted):
                array.flags.writeable = False  # one metric must not change what the next one is given
            more |= {one.name: one(wanted, predicted, weights=weights, groups=groups) for one in self.own}
        return replace(figures, more={name: value for name, value in more.items() if value is not None})

    def measure_all(
        self, names: Sequence[str], columns: Mapping[str, NDArray[Any]]
    ) -> dict[str, Metrics | ValueMetrics]:
        """Figures of each label. `columns` has logits and labels [rows, labels], and weights and groups if any."""
        logits, labels = columns["logits"], columns["labels"]
        return {
            name: self.measure(
                logits[:, place], labels[:, place], weights=columns.get("weights"), groups=columns.get("groups")
            )
            # A model that gives one logit has learned the first label only, see `loss_of`.
            for place, name in enumerate(names[: logits.shape[1]])
        }

    def bins(self, logits: Floats, labels: Floats, *, weights: Floats | None = None) -> list[CalibrationBin]:
        """Predictions beside labels in bins; those behind `ece`, if labels are clicks."""
        weight = np.ones(len(logits)) if weights is None else weights.astype(np.float64)
        predicted = predictions_of(logits, loss=self.loss)
        return calibration_bins(predicted, labels.astype(np.float64), weight, bins=self.settings.calibration_bins)


def flat(metrics: Mapping[str, Metrics | ValueMetrics]) -> dict[str, float]:
    """Figures of all labels in one mapping: the first label's by plain names, the others' with theirs in front."""
    out: dict[str, float] = {}
    for place, (label, figures) in enumerate(metrics.items()):
        out.update({name if place == 0 else f"{label}.{name}": value for name, value in figures.to_dict().items()})
    return out
