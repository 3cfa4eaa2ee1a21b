"""The schema: what a row of the log consists of, from the job's format and features.

Training makes it from the job, writes it into checkpoints and versions, and serving reads it from there: one schema,
so that a served feature cannot differ from a trained one. Beware: the order of slots and dense features is part of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from clickline.config.data import Data
from clickline.config.features import Dense, Features, Slot
from clickline.config.training import Loss, predicted_name
from clickline.data.embeddings import Fields
from clickline.data.missing_columns import missing_column
from clickline.data.native_features import NativeDense, NativeSlot
from clickline.data.schema_checks import check_features
from clickline.errors import CheckpointError, DataError

if TYPE_CHECKING:
    from clickline._native import Parser

INTEGERS = tuple(f"I{i}" for i in range(1, 14))
CATEGORIES = tuple(f"C{i}" for i in range(1, 27))
_TEXT_FORMATS = {"criteo", "slots", "elasticctr", "csv"}
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Schema:
    """Labels, slots and dense features in the order of a Batch, and how they are read from a log."""

    format: str
    labels: tuple[str, ...]
    slots: tuple[Slot, ...]
    dense: tuple[Dense, ...]
    weight: str | None = None
    time: str | None = None
    group: str | None = None
    keys: Literal["hash", "raw"] = "hash"
    delimiter: str = ","
    loss: Loss = "log"
    """Whether labels are 0 or 1 (log) or any finite numbers (squared), and so what the model predicts."""
    label_means: tuple[float, ...] = ()
    """squared: the mean of each label, which the model's output is added to; empty until they are fitted."""

    @classmethod
    def of(cls, data: Data, features: Features, *, loss: Loss = "log") -> Schema:
        """The schema of a job: the format's defaults filled in, contradictions refused with a JobError."""
        features = with_defaults(data, features)
        check_features(data, features)
        return replace(cls._from_sections(data, features), loss=loss)

    @classmethod
    def _from_sections(cls, data: Data, features: Features) -> Schema:
        return cls(
            format=data.format,
            labels=tuple(features.labels),
            slots=tuple(features.slots),
            dense=tuple(features.dense),
            weight=features.weight,
            time=features.time,
            group=features.group,
            keys=features.keys,
            delimiter=data.delimiter,
        )

    @property
    def output(self) -> str:
        """What a prediction is called: probability, or value."""
        return predicted_name(self.loss)

    @property
    def slot_names(self) -> tuple[str, ...]:
        return tuple(slot.name for slot in self.slots)

    @property
    def dense_names(self) -> tuple[str, ...]:
        return tuple(dense.name for dense in self.dense)

    @property
    def dense_width(self) -> int:
        """Numbers in a row of Batch.dense."""
        return sum(dense.size for dense in self.dense)

    @property
    def fields(self) -> Fields:
        """What its rows offer to a model."""
        return Fields(
            slots=self.slot_names,
            pooling=tuple(slot.pooling for slot in self.slots),
            dense=self.dense_width,
            labels=self.labels,
            keys_of=tuple(slot.keys_of or "" for slot in self.slots),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the log that are used, each once."""
        names = [*self.labels, *(slot.column or slot.name for slot in self.slots)]
        names += [dense.column or dense.name for dense in self.dense]
        names += [name for name in (self.weight, self.time, self.group) if name]
        return tuple(dict.fromkeys(names))

    def columns_of(self, known: Sequence[str]) -> list[str]:
        """The columns that are used; a DataError if one of them is not among the known ones."""
        for name in self.columns:
            if name not in known:
                raise DataError(missing_column(name, known))
        return list(self.columns)

    def parser(self, *, columns: Iterable[str] = (), labelled: bool = True) -> Parser:
        """A native parser. CSV needs all columns of the data in their order; others know theirs.

        `labelled=False` reads features only, for rows whose outcome is not known yet.
        """
        if self.unfitted:
            names = ", ".join(self.unfitted)
            raise ValueError(f"these dense features have no center and spread yet: {names}; call fitted() first")
        from clickline._native import Parser

        known = list(columns)
        try:
            return Parser(
                format=self.format if self.format in _TEXT_FORMATS else "columns",
                columns=known,
                labels=list(self.labels) if labelled else [],
                slots=[NativeSlot.of(slot) for slot in self.slots],
                dense=[NativeDense.of(dense) for dense in self.dense],
                weight=self.weight or "" if labelled else "",
                time=self.time or "" if labelled else "",
                group=self.group or "" if labelled else "",
                raw_keys=self.keys == "raw",
                delimiter=self.delimiter,
                numeric_labels=self.loss == "squared",
            )
        except ValueError as error:
            wanted = self.columns if labelled else [name for name in self.columns if name not in self.labels]
            # The native error names what the parser misses; a missing column gets a message with a suggestion instead.
            for name in wanted if known else ():
                if name not in known:
                    raise DataError(missing_column(name, known)) from error
            raise DataError(f"the job does not fit the data: {error}") from error

    @property
    def unfitted(self) -> tuple[str, ...]:
        """Dense features that are normalised by statistics that are not known yet."""
        return tuple(dense.name for dense in self.dense if _needs_fit(dense))

    @property
    def lacks_means(self) -> bool:
        """Whether the model is to start from the labels' means, and they are not known yet."""
        return self.loss == "squared" and not self.label_means

    @property
    def needs_fit(self) -> bool:
        """Whether something is to be fitted on the data first."""
        return bool(self.unfitted) or self.lacks_means

    def same_features(self, other: Schema) -> bool:
        """Whether a log line gives the same keys and dense numbers by the other schema, in the same order."""
        return (
            self.keys == other.keys
            and [NativeSlot.of(slot) for slot in self.slots] == [NativeSlot.of(slot) for slot in other.slots]
            and [NativeDense.of(dense) for dense in self.dense] == [NativeDense.of(dense) for dense in other.dense]
        )

    def unnormalised(self) -> Schema:
        """The same rows with all dense numbers as they are in the log, NaN where there is none: what to fit on."""
        # model_copy does not validate: NaN is refused in a job, and here it marks the values that are missing.
        update = {"normalise": "none", "missing": float("nan")}
        return replace(self, dense=tuple(dense.model_copy(update=update) for dense in self.dense))

    def fitted(self, stats: Mapping[str, tuple[float, float]]) -> Schema:
        """With (center, spread) by name of dense feature, where the job does not give them itself."""
        return replace(self, dense=tuple(_fitted(dense, stats) for dense in self.dense))

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it; with all defaults, so that a later change of them cannot change what is saved."""
        return {
            "version": _VERSION,
            "format": self.format,
            "labels": list(self.labels),
            "slots": [slot.model_dump() for slot in self.slots],
            "dense": [dense.model_dump() for dense in self.dense],
            "weight": self.weight,
            "time": self.time,
            "group": self.group,
            "keys": self.keys,
            "delimiter": self.delimiter,
            # Only where it says something: a schema of clicks stays what readers of any release know.
            **({"loss": self.loss, "label_means": list(self.label_means)} if self.loss != "log" else {}),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Schema:
        """From what `to_dict` returned. The values come from a file: anything else is a CheckpointError."""
        if saved.get("version") != _VERSION:
            raise CheckpointError(f"the schema has version {saved.get('version')!r}, but {_VERSION} was expected")
        try:
            # Not by `of`, which fills in the format's defaults: these may have changed since the schema was saved.
            features = Features.model_validate(
                {key: saved[key] for key in ("labels", "slots", "dense", "weight", "time", "group", "keys")}
            )
            data = Data(format=saved["format"], delimiter=saved["delimiter"])
            schema = cls._from_sections(data, features)
            return replace(schema, **_saved_loss(saved)) if "loss" in saved else schema
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the saved schema is damaged: {error}") from error


def with_defaults(data: Data, features: Features) -> Features:
    """The features, with those of the format where the job names none."""
    labels, slots, dense = list(features.labels), list(features.slots), list(features.dense)
    if data.format == "criteo":
        slots = slots or _criteo_slots(features.integers)
        if not dense and features.integers != "slots":
            dense = [Dense(name=name) for name in INTEGERS]
    if data.format == "elasticctr" and labels == ["label"]:
        labels = ["click"]
    return features.model_copy(update={"labels": labels, "slots": slots, "dense": dense})


def _criteo_slots(integers: str) -> list[Slot]:
    slots = [Slot(name=name) for name in CATEGORIES]
    return slots if integers == "dense" else slots + [Slot(name=name, bucket="log") for name in INTEGERS]


class _LossFields(TypedDict):
    loss: Loss
    label_means: tuple[float, ...]


def _saved_loss(saved: Mapping[str, Any]) -> _LossFields:
    """What a saved schema says of its loss, checked: it comes from a file."""
    loss, means = saved["loss"], [float(mean) for mean in saved["label_means"]]
    if loss not in get_args(Loss):
        raise ValueError(f"loss is {loss!r}; expected one of {', '.join(get_args(Loss))}")
    if len(means) not in (0, len(saved["labels"])) or not all(map(math.isfinite, means)):
        raise ValueError(f"label_means is {means}; expected a finite number for each of {len(saved['labels'])} labels")
    return {"loss": loss, "label_means": tuple(means)}


def _needs_fit(dense: Dense) -> bool:
    return dense.normalise in ("standard", "minmax") and (dense.center is None or dense.spread is None)


def _fitted(dense: Dense, stats: Mapping[str, tuple[float, float]]) -> Dense:
    if not _needs_fit(dense):
        return dense
    if dense.name not in stats:
        raise ValueError(f"no statistics for the dense feature {dense.name!r}; there are some for: {', '.join(stats)}")
    center, spread = stats[dense.name]
    # Validated as a whole: model_copy would accept statistics outside the bounds of center and spread.
    given = dense.model_dump() | {
        "center": center if dense.center is None else dense.center,
        "spread": spread if dense.spread is None else dense.spread,
    }
    return Dense.model_validate(given)
