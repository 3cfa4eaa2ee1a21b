"""Labels, slots and dense features of a job, from what PaddleRec's files say of its rows and what the data shows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from clickline.compat.paddlerec.reading.first_generation import DatasetSettings
from clickline.compat.paddlerec.reading.hyper_parameters import HyperParameters
from clickline.compat.paddlerec.translation.job_keys import JobKeys
from clickline.compat.paddlerec.translation.model_files import class_of, paddle_import, slots_in_reader
from clickline.compat.paddlerec.translation.model_names import GUIDE, ModelChoice
from clickline.compat.paddlerec.translation.row_shapes import (
    RowShape,
    ShapeError,
    dense_slots,
    feed_names,
    shape_of_lines,
    shape_of_sizes,
    slot_text,
    text_of_model,
)
from clickline.config.loading.origins import Path as Keys
from clickline.config.loading.suggestions import suggestion

_LINES = 20
_SAMPLE_BYTES = 1 << 16
_ENTRIES = 1000
"""Files of a directory that are looked at: a path may lead to all of a disk."""


class RowKeys:
    """Puts what a row has into a job."""

    def __init__(self, keys: JobKeys, hyper: HyperParameters | None, choice: ModelChoice) -> None:
        self._keys = keys
        self._hyper = hyper
        self._model = choice.paddle_name or choice.name
        self._labels = (hyper.gate_num if hyper else None) or 2 if self._model == "mmoe" else 1
        self._shape: RowShape | None = None

    def put_slots(self, dataset: DatasetSettings, source: Keys) -> None:
        """By sparse_slots and dense_slots of a dataset."""
        try:
            dense = dense_slots(dataset.dense_slots)
        except ShapeError as error:
            self._keys.refuse((*source, "dense_slots"), str(error))
            return
        sparse = dataset.sparse_slots.split()
        try:
            shape = slot_text(sparse, dense, model=self._model, labels=self._labels)
        except ShapeError as error:
            self._keys.refuse((*source, "sparse_slots"), str(error))
            return
        if dataset.data_converter:
            self._keys.tell((*source, "data_converter"), "not carried: sparse_slots and dense_slots say what a row has")
        self._put(shape, (*source, "sparse_slots"), (*source, "dense_slots"))

    def put_reader(self, reader: Path, data: Sequence[str], source: Keys) -> None:
        """By a reader's file: one of ours is used itself, one of PaddleRec's stands for what it reads."""
        own = class_of(reader, base="Reader")
        paddle = paddle_import(reader)
        if own is not None and paddle is None:
            self._keys.put("data.format", f"{reader}:{own}", source)
            self._keys.tell(source, f"{reader}:{own} reads the data; name labels, slots and dense features in features")
            return
        lines = sampled_lines(data)
        try:
            shape = self._shape_of(reader, lines)
        except ShapeError as error:
            self._keys.refuse(source, f"{error}; write a reader ({GUIDE}), or give sparse_slots and dense_slots")
            return
        if lines and shape.format == "slots" and not all(":" in token for token in lines[0].split()):
            told = f"{paddle} cannot run here" if paddle else f"{reader.name} is not of ours"
            message = (
                f"the data is not slot text (it begins with {lines[0][:40]!r}), and {told}: write a reader ({GUIDE})"
            )
            self._keys.refuse(source, message)
            return
        hyper: Keys = ("hyper_parameters",)
        self._put(shape, (*hyper, "sparse_inputs_slots"), (*hyper, "dense_input_dim"))

    def check_feeds(self, names: Sequence[str], source: Keys) -> None:
        """Refuse variables that an inference model is to be fed with and that rows do not have."""
        if self._shape is None or self._shape.format != "slots":
            return  # only the model's own code knows what it calls them
        known = feed_names(self._shape)
        for name in names:
            if name not in known:
                self._keys.refuse(source, f"no feature {name!r} to feed; {suggestion(name, known, kind='features')}")

    def _shape_of(self, reader: Path, lines: Sequence[str]) -> RowShape:
        hyper, model = self._hyper, self._model
        seen = shape_of_lines(lines, model=model, labels=self._labels)
        own_text = text_of_model(hyper, model=model)
        # Data that is there decides: a model with a text of its own may be given slots all the same.
        if own_text is not None:
            return seen or own_text
        if (named := slots_in_reader(reader)) is not None:
            sparse, dense, sizes = named
            return slot_text(sparse, list(zip(dense, sizes, strict=True)), model=model, labels=self._labels)
        if hyper is None:
            if seen is None:
                raise ShapeError("nothing says what a row has")
            return seen
        told = shape_of_sizes(hyper, model=model)
        return told if seen is None or set(told.labels) <= set(seen.labels) else seen

    def _put(self, shape: RowShape, sparse: Keys, dense: Keys) -> None:
        keys = self._keys
        self._shape = shape
        keys.put("data.format", shape.format, sparse)
        if shape.format == "csv":
            keys.put("data.header", False, sparse)
            if shape.delimiter != ",":
                keys.put("data.delimiter", shape.delimiter, sparse)
        keys.put("features.labels", shape.labels, sparse)
        if shape.slots:
            keys.put("features.slots", shape.slots, sparse)
            if shape.raw_keys:
                keys.put("features.keys", "raw", sparse)
        if shape.dense:
            keys.put("features.dense", shape.dense, dense)
        if shape.notice:
            keys.tell(sparse, shape.notice)


def sampled_lines(paths: Sequence[str]) -> list[str]:
    """The first lines of the first file of plain text; none if there is no such file here."""
    for file in (Path(path) for path in paths if "://" not in path):
        try:
            inside = sorted(islice(file.rglob("*"), _ENTRIES)) if file.is_dir() else [file]
            first = next((one for one in inside if one.is_file() and not one.name.startswith((".", "_"))), None)
            if first is None:
                continue
            with first.open("rb") as stream:
                text = stream.read(_SAMPLE_BYTES).decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        return [line for line in text.split("\n")[:_LINES] if line.strip()]
    return []
