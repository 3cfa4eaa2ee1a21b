"""The sparse tables: how rows start, learn, enter and leave."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from clickline.config import durations
from clickline.config.section import Section

Share = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=0, le=10**12)]
_Age = Annotated[_Count, BeforeValidator(durations.seconds, json_schema_input_type=_Count | durations.Text)]
NonNegative = Annotated[float, Field(ge=0, le=1e30)]


class Admission(Section):
    count: Annotated[int, Field(ge=1, le=65_535)] = 1
    """Sightings of a key before it gets a row; until then it contributes zeros."""
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Chance, at each sighting, that a key gets a row; depends on key, seed and step only."""


class Eviction(Section):
    unseen_for: _Age = 0
    """Rows not seen for this long are dropped: seconds of event time if the log has it (7d, 12h: features.time), else
    steps. 0 = never."""
    min_score: NonNegative = 0.0
    """Rows whose score, show_weight·shows + click_weight·clicks, is below this are dropped. 0 = never."""
    show_weight: NonNegative = 0.1
    """Worth of a show in the score."""
    click_weight: NonNegative = 1.0
    """Worth of a click in the score."""


class SparseOptimizer(Section):
    name: Literal["sgd", "adagrad", "adam", "adamw", "ftrl"] = "adagrad"
    """The rule; it runs inside the table, on touched rows only."""
    learning_rate: Annotated[float, Field(gt=0, le=100)] = 0.02
    """Step size (FTRL: alpha)."""
    l1: NonNegative = 0.0
    """L1 penalty (FTRL: lambda 1, exact zeros)."""
    l2: NonNegative = 0.0
    """L2 penalty added to the gradient of touched rows (FTRL: lambda 2)."""
    weight_decay: NonNegative = 0.0
    """adamw only: share of the weight, times learning rate, taken off at each touch."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """adam and adamw: decay of the mean."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.999
    """adam and adamw: decay of the square."""
    epsilon: Annotated[float, Field(gt=0, le=1)] = 1e-6
    """Keeps divisions finite (FTRL: unused)."""
    initial: NonNegative = 0.0
    """adagrad: the accumulator's start. FTRL: beta."""
    clip: NonNegative = 0.0
    """Each row's gradient is scaled to at most this norm. 0 = never."""


class TableSettings(Section):
    optimizer: SparseOptimizer = SparseOptimizer()
    """How rows of these tables learn."""
    restart_epochs: bool = True
    """Rows learn anew in every epoch after the first, from their initial values or those of a warm start."""
    init_scale: NonNegative = 0.001
    """Standard deviation of a new row's values."""


class Tables(Section):
    embedding: TableSettings = TableSettings()
    """Vectors of the slots."""
    linear: TableSettings = TableSettings(
        optimizer=SparseOptimizer(name="ftrl", learning_rate=0.05, initial=1.0, l2=20.0),
        restart_epochs=False,
        init_scale=0.0,
    )
    """One weight per key: lr, and the wide part of others."""
    admission: Admission = Admission()
    """When a new key gets a row."""
    eviction: Eviction = Eviction()
    """When a row is dropped."""
    evict_every: Annotated[int, Field(ge=0, le=10**12)] = 0
    """Steps between sweeps that evict. 0 = at the end of each epoch if eviction is on."""
    count_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """What shows and clicks are multiplied by at each sweep."""
