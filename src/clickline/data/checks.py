"""Contradictions between a job's features and its format, found before any data is read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from clickline.config.data import Data
from clickline.config.features import Features
from clickline.errors import JobError

_CRITEO = frozenset({"label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))})


def check_features(data: Data, features: Features) -> None:
    """Raise a JobError that says what to change; `features` have the format's defaults filled in."""
    if not features.slots and not features.dense:
        raise JobError(
            f"Nothing to learn from: the format '{data.format}' needs features.slots or features.dense, and both are "
            f"empty. List the columns there, e.g. slots: [user, item]."
        )
    _unique("features.labels", features.labels)
    _unique("features.slots", (slot.name for slot in features.slots))
    _unique("features.dense", (dense.name for dense in features.dense))
    _labels_apart(features)
    _characters(data, features)
    _finite(features)
    if features.keys == "raw":
        _raw_keys(data, features)
    if data.format == "criteo":
        _criteo(features)
    elif data.format == "elasticctr" and features.labels != ["click"]:
        raise JobError(f"The format 'elasticctr' has one label, 'click', but features.labels is {features.labels}.")
    elif data.format == "csv":
        _single_numbers("csv", features)


def _unique(where: str, names: Iterable[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise JobError(
            f"{where} has '{twice[0]}' more than once; give each a name of its own (`column` says what it reads)."
        )


def _labels_apart(features: Features) -> None:
    """A model that is shown the label learns nothing else."""
    uses = [("slot", slot.name, slot.column or slot.name) for slot in features.slots]
    uses += [("dense feature", dense.name, dense.column or dense.name) for dense in features.dense]
    for what, name, column in uses:
        if column in features.labels or name in features.labels:
            raise JobError(f"The {what} '{name}' reads the label '{column}'; a feature must not know the outcome.")
    for what in ("weight", "time", "group"):
        if getattr(features, what) in features.labels:
            raise JobError(f"features.{what} is '{getattr(features, what)}', which is a label; name another column.")


def _characters(data: Data, features: Features) -> None:
    if not data.delimiter.isascii() or data.delimiter in '"\r\n\0':
        raise JobError(f"data.delimiter must be an ASCII character and no quote or line break, got {data.delimiter!r}.")
    for slot in features.slots:
        if not slot.separator.isascii() or slot.separator in ("\r", "\n", "\0"):
            raise JobError(
                f"The separator of slot '{slot.name}' must be an ASCII character and no line break, "
                f"got {slot.separator!r}."
            )


def _finite(features: Features) -> None:
    for dense in features.dense:
        for what, value in (("missing", dense.missing), ("center", dense.center), ("spread", dense.spread)):
            if value is not None and not math.isfinite(value):
                raise JobError(f"`{what}` of the dense feature '{dense.name}' must be a finite number, got {value}.")


def _raw_keys(data: Data, features: Features) -> None:
    for slot in features.slots:
        if slot.bucket != "none":
            raise JobError(f"The slot '{slot.name}' has a bucket, which is hashed; it does not go with `keys: raw`.")
    if data.format == "criteo":
        raise JobError("The categories of the Criteo format are text, no decimal keys; use `keys: hash`.")


def _criteo(features: Features) -> None:
    columns = [*features.labels, *(slot.column or slot.name for slot in features.slots)]
    columns += [dense.column or dense.name for dense in features.dense]
    columns += [name for name in (features.weight, features.time, features.group) if name]
    for column in columns:
        if column not in _CRITEO:
            raise JobError(f"The Criteo format has no column '{column}'; it has label, I1 to I13 and C1 to C26.")
    for slot in features.slots:
        if slot.separator:
            raise JobError(f"The slot '{slot.name}' has a separator, but a Criteo column holds one value.")
    _single_numbers("criteo", features)


def _single_numbers(format: str, features: Features) -> None:
    for dense in features.dense:
        if dense.size != 1:
            raise JobError(
                f"The dense feature '{dense.name}' has size {dense.size}, but a column of the format '{format}' "
                f"holds one number; name its columns one by one."
            )
