"""From the features in a request to the rows that a network is asked about, by the definition it was trained with.

Each loaded version has a reader of its own, made from the schema in its manifest. Values are raw, as in the log, and go
through the native code that read the log, so the same value has the same key: 7, "7" and 7.0 are one category, the
text "7.0" is another, as it was in training. What is missing is filled in as training does it, and counted; whatever
else is wrong with a row refuses the whole request, since a prediction for something else would look like one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from clickline._native import Refused, Tensors, json_member
from clickline.data.batch import Batch
from clickline.data.schema import CATEGORIES, INTEGERS, Schema
from clickline.net.request_errors import RequestError, refuse
from clickline.serve.prediction import PredictionInput
from clickline.serve.protocols.elasticctr_shapes import decode_general
from clickline.serve.protocols.open_inference import Tensor, refusal_of

if TYPE_CHECKING:
    from clickline._native import Asked

_UNUSED = {"criteo": ("label", *INTEGERS, *CATEGORIES), "elasticctr": ("show", "click")}
"""Columns that rows of a format have whether or not they are used, so that whole rows of a log can be sent."""


class FeatureReader:
    """Reads requests for one version. Any number of threads may use it at once."""

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
            return _question(self._parser.parse_json(body, most_rows))
        except Refused as error:
            raise self._refusal(error) from None

    def from_tensors(self, tensors: Iterable[Tensor] | Tensors, *, most_rows: int) -> PredictionInput:
        """Inputs of the Open Inference Protocol, one per column; all have the same number of rows."""
        try:
            inputs = tensors if isinstance(tensors, Tensors) else Tensors(tensors)
            return _question(self._parser.parse_tensors(inputs, most_rows))
        except Refused as error:
            raise self._refusal(error) from None

    def from_slots(self, body: bytes, *, most_rows: int) -> PredictionInput:
        """ElasticCTR's `{"instances": [{"slots": [{"slot_name": "101", "feasigns": [5]}]}]}`."""
        try:
            return _question(self._parser.parse_feasigns(body, most_rows))
        except Refused as error:
            raise refuse(*error.args[:2]) from None  # in the very words of the older server, where it has some

    def from_general(self, body: bytes, *, most_rows: int) -> PredictionInput:
        """GeneralModelService's `{"tensor": [{"name": "C1", "int64_data": [5], "shape": [1, 1]}]}`."""
        return self.from_tensors(decode_general(body, known=self.columns), most_rows=most_rows)

    def _refusal(self, error: Refused) -> RequestError:
        return refusal_of(error, features=self.columns)


def _question(asked: Asked) -> PredictionInput:
    rows, dense, keys, offsets, missing = asked
    labels = np.zeros((rows, 1), np.float32)  # nobody knows them yet
    return PredictionInput(Batch(labels, dense, keys, offsets), missing)


def sticky_key(body: bytes) -> str | None:
    """The `key` beside the instances: requests of the same key go to the same variant. None if there is none."""
    return json_member(body, "key")
