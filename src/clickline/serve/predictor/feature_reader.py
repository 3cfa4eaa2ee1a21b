"""The reader of features in requests: raw values to rows of keys, by the definition that the version was trained with.

Each loaded version has a reader of its own, made from the schema in its manifest. Values are raw, as in the log, and go
through the native code that read the log, so the same value has the same key: 7, "7" and 7.0 are one category, the
text "7.0" is another, as it was in training. What is missing is filled in as training does it, and counted; any other
mistake in a row refuses the whole request, since a prediction for something else would look like a right one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from clickline._native import Refused, Tensors
from clickline.data.batch import Batch
from clickline.data.schema import CATEGORIES, INTEGERS, Schema
from clickline.net.request_errors import RequestError, refuse
from clickline.serve.native_refusals import refusal_of
from clickline.serve.prediction import PredictionInput, Tensor

if TYPE_CHECKING:
    from clickline._native import Asked

_UNUSED = {"criteo": ("label", *INTEGERS, *CATEGORIES), "elasticctr": ("show", "click")}
"""Columns that rows of a format have whether or not they are used, so that whole rows of a log can be sent."""


class FeatureReader:
    """Reads requests for one version; a RequestReader. Any number of threads may use it at once."""

    def __init__(self, schema: Schema, *, unread: Iterable[str] = ()) -> None:
        """`unread`: columns of the log that no feature is read from. Rows may have them, or the log's label."""
        columns = [slot.column or slot.name for slot in schema.slots]
        columns += [dense.column or dense.name for dense in schema.dense]
        self.columns = tuple(dict.fromkeys(columns))
        """Names of features in requests: the columns of the log that they are read from."""
        known = dict.fromkeys([*schema.columns, *_UNUSED.get(schema.format, ()), *unread])
        self._parser = replace(schema, format="parquet").parser(columns=known, labelled=False)

    def from_json(self, body: bytes, *, most_rows: int) -> PredictionInput:
        """`{"instances": [{"C1": "68fd1e64", "I1": 3, "tags": ["a", "b"]}]}`."""
        try:
            return _prediction_input(self._parser.parse_json(body, most_rows))
        except Refused as error:
            raise self._refusal(error) from None

    def from_tensors(self, tensors: Iterable[Tensor] | Tensors, *, most_rows: int) -> PredictionInput:
        """Inputs of the Open Inference Protocol, one per column; all have the same number of rows."""
        try:
            inputs = tensors if isinstance(tensors, Tensors) else Tensors(tensors)
            return _prediction_input(self._parser.parse_tensors(inputs, most_rows))
        except Refused as error:
            raise self._refusal(error) from None

    def from_feasigns(self, body: bytes, *, most_rows: int) -> PredictionInput:
        """Keys that are hashed already: `{"instances": [{"slots": [{"slot_name": "101", "feasigns": [5]}]}]}`."""
        try:
            return _prediction_input(self._parser.parse_feasigns(body, most_rows))
        except Refused as error:
            raise refuse(*error.args[:2]) from None  # clients of ElasticCTR look for its exact messages

    def _refusal(self, error: Refused) -> RequestError:
        return refusal_of(error, features=self.columns)


def _prediction_input(parsed: Asked) -> PredictionInput:
    rows, dense, keys, offsets, missing = parsed
    labels = np.zeros((rows, 1), np.float32)  # not known yet
    return PredictionInput(Batch(labels, dense, keys, offsets), missing)
