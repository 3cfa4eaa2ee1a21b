"""Contradictions between a job's features and its format, found before any data is read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from clickline.config.data import Data
from clickline.config.features import Features
from clickline.config.loading.suggestions import did_you_mean
from clickline.errors import JobError, JobProblem

_CRITEO = frozenset({"label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))})


def check_features(data: Data, features: Features) -> None:
    """Raise a JobError that lists every problem; `features` have the format's defaults filled in."""
    if problems := list(feature_problems(data, features)):
        raise JobError("\n".join(problem.message for problem in problems), errors=problems)


def feature_problems(data: Data, features: Features) -> Iterator[JobProblem]:
    """All contradictions, each with the key to change."""
    if not features.slots and not features.dense:
        yield JobProblem(
            "features.slots",
            f"nothing to learn from: the format '{data.format}' needs features.slots or features.dense, and both are "
            f"empty; list the columns there, such as slots: [user, item]",
        )
        return
    yield from _unique("features.labels", features.labels)
    yield from _unique("features.slots", (slot.name for slot in features.slots))
    yield from _unique("features.dense", (dense.name for dense in features.dense))
    yield from _labels_apart(features)
    yield from _known_keys(features)
    yield from _characters(data, features)
    yield from _finite(features)
    if features.keys == "raw":
        yield from _raw_keys(data, features)
    if data.format == "criteo":
        yield from _criteo(features)
    elif data.format == "elasticctr" and features.labels != ["click"]:
        message = f"the format 'elasticctr' has one label, 'click', but features.labels is {features.labels}"
        yield JobProblem("features.labels", message)
    elif data.format == "csv":
        yield from _single_numbers("csv", features)


def _unique(where: str, names: Iterable[str]) -> Iterator[JobProblem]:
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        if name in seen:
            yield JobProblem(
                f"{where}[{place}]",
                f"{where} has '{name}' more than once, the first time as number {seen[name] + 1}; give each a name of "
                "its own (`column` says what it reads)",
            )
        seen.setdefault(name, place)


def _labels_apart(features: Features) -> Iterator[JobProblem]:
    """A model that is shown the label learns nothing else."""
    uses = [(f"features.slots[{n}]", "slot", s.name, s.column) for n, s in enumerate(features.slots)]
    uses += [(f"features.dense[{n}]", "dense feature", d.name, d.column) for n, d in enumerate(features.dense)]
    for key, what, name, column in uses:
        if (column or name) in features.labels or name in features.labels:
            message = f"the {what} '{name}' reads the label '{column or name}'; a feature must not know the outcome"
            yield JobProblem(key, message)
    for what in ("weight", "time", "group"):
        if (column := getattr(features, what)) in features.labels:
            message = f"features.{what} is '{column}', which is a label; name another column"
            yield JobProblem(f"features.{what}", message)


def _known_keys(features: Features) -> Iterator[JobProblem]:
    """A history shares the vectors of a slot of the job, so there must be such a slot."""
    names = list(dict.fromkeys(slot.name for slot in features.slots))
    for place, slot in enumerate(features.slots):
        if slot.keys_of is not None and slot.keys_of not in names:
            others = [name for name in names if name != slot.name]
            meant = did_you_mean(slot.keys_of, others)
            known = f" known slots: {', '.join(others[:20]) or 'none'}{', …' if len(others) > 20 else ''}"
            yield JobProblem(
                f"features.slots[{place}].keys_of",
                f"'{slot.keys_of}' is not a slot of the job;{meant or known}",
            )


def _characters(data: Data, features: Features) -> Iterator[JobProblem]:
    if not data.delimiter.isascii() or data.delimiter in '"\r\n\0':
        message = f"data.delimiter must be an ASCII character and no quote or line break, got {data.delimiter!r}"
        yield JobProblem("data.delimiter", message)
    for place, slot in enumerate(features.slots):
        if not slot.separator.isascii() or slot.separator in ("\r", "\n", "\0"):
            yield JobProblem(
                f"features.slots[{place}].separator",
                f"the separator of slot '{slot.name}' must be an ASCII character and no line break, "
                f"got {slot.separator!r}",
            )


def _finite(features: Features) -> Iterator[JobProblem]:
    for place, dense in enumerate(features.dense):
        for what, value in (("missing", dense.missing), ("center", dense.center), ("spread", dense.spread)):
            if value is not None and not math.isfinite(value):
                yield JobProblem(
                    f"features.dense[{place}].{what}",
                    f"`{what}` of the dense feature '{dense.name}' must be a finite number, got {value}",
                )


def _raw_keys(data: Data, features: Features) -> Iterator[JobProblem]:
    for place, slot in enumerate(features.slots):
        if slot.bucket != "none":
            message = f"the slot '{slot.name}' has a bucket, which is hashed; it does not go with `keys: raw`"
            yield JobProblem(f"features.slots[{place}].bucket", message)
    if data.format == "criteo":
        message = "the categories of the Criteo format are text, no decimal keys; use `keys: hash`"
        yield JobProblem("features.keys", message)


def _criteo(features: Features) -> Iterator[JobProblem]:
    columns = [(f"features.labels[{n}]", label) for n, label in enumerate(features.labels)]
    columns += [(f"features.slots[{n}]", slot.column or slot.name) for n, slot in enumerate(features.slots)]
    columns += [(f"features.dense[{n}]", dense.column or dense.name) for n, dense in enumerate(features.dense)]
    columns += [(f"features.{what}", getattr(features, what) or "label") for what in ("weight", "time", "group")]
    for key, column in columns:
        if column not in _CRITEO:
            message = f"the Criteo format has no column '{column}'; it has label, I1 to I13 and C1 to C26"
            yield JobProblem(key, message)
    for place, slot in enumerate(features.slots):
        if slot.separator:
            message = f"the slot '{slot.name}' has a separator, but a Criteo column holds one value"
            yield JobProblem(f"features.slots[{place}].separator", message)
    yield from _single_numbers("criteo", features)


def _single_numbers(format: str, features: Features) -> Iterator[JobProblem]:
    for place, dense in enumerate(features.dense):
        if dense.size != 1:
            yield JobProblem(
                f"features.dense[{place}].size",
                f"the dense feature '{dense.name}' has size {dense.size}, but a column of the format '{format}' "
                f"holds one number; name its columns one by one",
            )
