"""What a row of the log means: label, slots, dense columns, and how each becomes numbers.

Training and serving use the same definition, so that a served feature cannot differ from a trained one.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from clickline.config.section import Section
from clickline.config.tables import Admission, Eviction

Pooling = Literal["sum", "mean", "max", "sequence"]
Normalise = Literal["none", "log1p", "standard", "minmax", "criteo"]
NAME_PATTERN = r"^[^\s:]+$"


def _number_as_text(value: Any) -> Any:
    """Let 101 stand for "101": PaddleRec's slots, and CSV columns without a header, have numbers for names."""
    # bool is a subclass of int, but true in place of a name is a mistake to report, not the name "True".
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _named(value: Any) -> Any:
    """Let `C1` stand for `{name: C1}`."""
    return {"name": value} if isinstance(value, str | int) and not isinstance(value, bool) else value


_Text = BeforeValidator(_number_as_text, json_schema_input_type=str | int)
Name = Annotated[str, Field(min_length=1, max_length=128, pattern=NAME_PATTERN), _Text]
Column = Annotated[str, Field(min_length=1), _Text]
Number = Annotated[float, Field(ge=-1e30, le=1e30)]


class Slot(Section):
    name: Name
    """The slot's name; together with a value it makes the key."""
    column: Column | None = None
    """Column of the log that it is read from, if not the slot's own name."""
    bucket: Literal["none", "log"] = "none"
    """`log` turns a number v into floor(log2(v)) + 2 when v > 2, else into floor(v): integers as categories."""
    pooling: Pooling = "sum"
    """How several values of one row become one vector; `sequence` keeps them apart, for models that read a history."""
    keys_of: str | None = None
    """Slot whose keys these values are: a history of movies holds keys of the slot `movie`, and shares its vectors."""
    separator: Annotated[str, Field(max_length=1)] = ""
    """Character that separates several values in one CSV column; empty means one value."""
    max_values: Annotated[int, Field(ge=1, le=10_000)] = 1000
    """Values of one row beyond this many are dropped (a sequence keeps its last ones)."""
    admission: Admission | None = None
    """When a new key of this slot gets a row; unset means as in `tables.admission`."""
    eviction: Eviction | None = None
    """When a row of this slot is dropped; unset means as in `tables.eviction`."""


class Dense(Section):
    name: Name
    """The dense feature's name."""
    column: Column | None = None
    """Column of the log that it is read from, if not the feature's own name."""
    size: Annotated[int, Field(ge=1, le=65_536)] = 1
    """How many numbers it holds (slot text only)."""
    normalise: Normalise = "log1p"
    """none, log1p: sign(v)·ln(1+|v|), standard: (v-mean)/sd, minmax: (v-low)/(high-low), criteo: v ≤ 2 ? v : ln(v)²."""
    center: Number | None = None
    """Mean (standard) or low (minmax); fitted on the first `fit_rows` training rows if not given."""
    spread: Annotated[float, Field(gt=0, le=1e30)] | None = None
    """Standard deviation (standard) or high - low (minmax); fitted if not given."""
    missing: Number = 0.0
    """Value, after normalisation, where the log has none."""


Slots = list[Annotated[Slot, BeforeValidator(_named, json_schema_input_type=Name | Slot)]]
Denses = list[Annotated[Dense, BeforeValidator(_named, json_schema_input_type=Name | Dense)]]


class Features(Section):
    labels: Annotated[list[Name], Field(min_length=1, max_length=16)] = ["label"]
    """Columns with the labels, each 0 or 1, or any number with `train.loss: squared`; the first is the one that AUC (or
    RMSE) and click counts are about."""
    slots: Annotated[Slots, Field(max_length=4096)] = []
    """Categorical features; a plain name is enough. The Criteo format has its own if none are given."""
    dense: Annotated[Denses, Field(max_length=4096)] = []
    """Numeric features; a plain name is enough. The Criteo format has its own if none are given."""
    integers: Literal["dense", "slots", "both"] = "both"
    """Criteo format only: whether I1 to I13 become dense features, bucketed slots, or both."""
    weight: Name | None = None
    """Column with the weight of a row in the loss."""
    time: Name | None = None
    """Column with the event time, in seconds since 1970."""
    group: Name | None = None
    """Column that GAUC groups by, a user id as a rule."""
    keys: Literal["hash", "raw"] = "hash"
    """hash: XXH64 of slot and value. raw: the value is itself the 64-bit key, as in PaddleRec's text logs."""
    fit_rows: Annotated[int, Field(ge=1, le=1_000_000_000)] = 100_000
    """Training rows from which standard and minmax are fitted, and the mean label with `train.loss: squared`."""
