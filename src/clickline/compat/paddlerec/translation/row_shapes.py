"""What the rows of PaddleRec's data have: labels, slots and dense numbers, and the format that reads them.

Most of it is slot text. The readers of din, mmoe and autoint take apart text of their own, which our format csv reads
as it is. Readers are Python for Paddle and cannot run, so what they would do is known here by the model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from clickline.compat.paddlerec.reading.hyper_parameters import HyperParameters

_DENSE = re.compile(r"(?P<name>[^\s:]+)(?::(?P<size>\d{1,6}|\[[\d,\s]{1,60}\]))?(?=\s|$)", re.ASCII)
CRITEO_SLOTS, CRITEO_DENSE = 27, 13
_CENSUS_WIDTH = 499
_WEIGHED = (
    "feat_idx is one slot whose vectors are summed, feat_value is numbers: PaddleRec multiplies the one with the other;"
    " data with a slot for each field learns more"
)

Feature = str | int | dict[str, str | int | bool]
"""A slot or dense feature, as a job has it."""


class ShapeError(Exception):
    """Raised when rows cannot be described; the message says why."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """Keys of `data` and `features`."""

    labels: list[str]
    slots: list[Feature] = field(default_factory=list)
    dense: list[Feature] = field(default_factory=list)
    format: str = "slots"
    delimiter: str = ","
    raw_keys: bool = True
    """Whether values are keys themselves, as PaddleRec has one table for all slots."""
    notice: str = ""
    """What is other than PaddleRec has it."""


def slot_text(sparse: Sequence[str], dense: Sequence[tuple[str, int]], *, model: str, labels: int = 1) -> RowShape:
    """Slot text: the first `labels` sparse slots are labels."""
    if len(sparse) < labels:
        raise ShapeError(f"{len(sparse)} sparse slots, but the first {labels} of them are labels")
    plain: list[Feature] = [as_number(name) for name in sparse[labels:]]
    slots = _histories(sparse[labels:]) if model == "din" else plain
    sizes: list[Feature] = [{"name": name, "size": size, "normalise": "none"} for name, size in dense]
    names = list(sparse[:labels])
    if dense and not slots:
        # wide_deep on census data has numbers alone; models here have an embedding.
        only = dense[0][0]
        notice = f"a model has at least one slot here: {only} is one, beside the numbers that it is"
        return RowShape(names, [{"name": f"slot_{only}", "column": only}], sizes, raw_keys=False, notice=notice)
    return RowShape(names, slots, sizes, notice=_WEIGHED if _is_weighed(sparse, dense) else "")


def _is_weighed(sparse: Sequence[str], dense: Sequence[tuple[str, int]]) -> bool:
    return "feat_idx" in sparse and "feat_value" in [name for name, _ in dense]


def dense_slots(text: str) -> list[tuple[str, int]]:
    """`dense_var:13 other:[3,4]` as names and sizes."""
    found, place = [], 0
    for match in _DENSE.finditer(text):
        if text[place : match.start()].strip():
            break
        size = 1
        for number in re.findall(r"\d+", match["size"] or "1"):
            size *= int(number)
        found.append((match["name"], size))
        place = match.end()
    if text[place:].strip():
        raise ShapeError(f"{text[place:].strip()[:60]!r} is not NAME:SIZE, such as dense_var:13 or image:[8,8]")
    return found


def shape_of_sizes(hyper: HyperParameters, *, model: str) -> RowShape:
    """Rows by the sizes in hyper_parameters, as PaddleRec's sample data has them."""
    if hyper.sparse_inputs_slots is None and hyper.num_field is not None:
        return slot_text(["label", "feat_idx"], [("feat_value", hyper.num_field)], model=model)
    labels = hyper.gate_num or 2 if model == "mmoe" else 1
    slots = hyper.sparse_inputs_slots or (hyper.slot_num + 1 if hyper.slot_num else CRITEO_SLOTS)
    usual = 0 if hyper.slot_num else CRITEO_DENSE
    told = hyper.dense_feature_dim if hyper.dense_input_dim is None else hyper.dense_input_dim
    width = usual if told is None else told
    names = ["click", *(f"label_{n}" for n in range(2, labels + 1)), *(str(n) for n in range(1, slots))]
    return slot_text(names, [("dense_feature", width)] if width > 0 else [], model=model, labels=labels)


def text_of_model(hyper: HyperParameters | None, *, model: str) -> RowShape | None:
    """Rows in a text that is the model's own; None if it reads slots."""
    if model == "din":
        # HISTORY;CATEGORIES;ITEM;CATEGORY;LABEL, the first two with spaces between their values.
        slots: list[Feature] = [
            {"name": "item", "column": "2"},
            {"name": "cat", "column": "3"},
            {"name": "hist_item", "column": "0", "separator": " ", "pooling": "sequence", "keys_of": "item"},
            {"name": "hist_cat", "column": "1", "separator": " ", "pooling": "sequence", "keys_of": "cat"},
        ]
        return RowShape(["4"], slots, format="csv", delimiter=";", raw_keys=False)
    if model == "mmoe":
        # MARITAL,INCOME and numbers: the first label is the income, as in PaddleRec's census data.
        width = (hyper.feature_size if hyper else None) or _CENSUS_WIDTH
        columns: list[Feature] = [{"name": str(n), "normalise": "none"} for n in range(2, 2 + width)]
        # Models here have an embedding; PaddleRec's has none in this data.
        slot: list[Feature] = [{"name": "slot_2", "column": "2"}]
        notice = "a model has at least one slot here: column 2 is one, beside the number that it is"
        return RowShape(["1", "0"], slot, columns, format="csv", raw_keys=False, notice=notice)
    if model == "autoint":
        # LABEL, then the index of every field, then the value of every field.
        fields = (hyper.num_field if hyper else None) or 39
        values: list[Feature] = [{"name": str(n), "normalise": "none"} for n in range(fields + 1, 2 * fields + 1)]
        indices: list[Feature] = [as_number(str(n)) for n in range(1, fields + 1)]
        return RowShape(["0"], indices, values, format="csv", delimiter=" ", raw_keys=False)
    return None


def shape_of_lines(lines: Sequence[str], *, model: str, labels: int = 1) -> RowShape | None:
    """Rows by what some lines of slot text have; None if they are other text."""
    values: dict[str, list[str]] = {}
    for line in lines:
        for token in line.split():
            name, colon, value = token.partition(":")
            if not colon or not name:
                return None
            values.setdefault(name, []).append(value)
    if not values:
        return None
    dense = {name: _width(name, lines) for name, seen in values.items() if any("." in value for value in seen)}
    sparse = [name for name in values if name not in dense]
    # A model for several labels may be given data with fewer: labels are what is 0 or 1.
    outcomes = [name for name in sparse[:labels] if set(values[name]) <= {"0", "1"}]
    return slot_text(sparse, list(dense.items()), model=model, labels=max(1, len(outcomes)))


def feed_names(shape: RowShape) -> list[str]:
    """What PaddleRec's models call the inputs that rows have: by the slot, or C1 for slot 1, and dense_input."""
    named = [str(one["name"] if isinstance(one, dict) else one) for one in (*shape.slots, *shape.dense)]
    numbered = [f"C{name}" for name in named if name.isdecimal()]
    return [*shape.labels, *named, *numbered, "label", *(["dense_input"] if shape.dense else [])]


def _width(name: str, lines: Sequence[str]) -> int:
    return max(sum(token.startswith(f"{name}:") for token in line.split()) for line in lines)


def _histories(names: Sequence[str]) -> list[Feature]:
    """Slots of din: hist_item is the history of item, or of target_item."""
    slots: list[Feature] = []
    plain = [name for name in names if "hist" not in name]
    for name in names:
        subject = re.sub(r"_?hist(?:ory)?_?", "", name)
        if name in plain:
            slots.append(as_number(name))
        elif owner := next((one for one in plain if one.endswith(subject)), None):
            slots.append({"name": name, "pooling": "sequence", "keys_of": owner})
        else:
            raise ShapeError(f"the history {name!r} has no slot of its own kind, such as {subject or 'item'!r}")
    if len(plain) == len(names):
        raise ShapeError("din reads a history, and none of the slots is called one: name it hist_item, beside item")
    return slots


def as_number(name: str) -> str | int:
    """A slot's name as a job has it: 101 for "101", which reads better."""
    return int(name) if name.isdecimal() and str(int(name)) == name else name
