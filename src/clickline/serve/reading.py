"""From the body of a request to a batch, by one version's own feature definition."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from clickline.data.arrow import parse_table
from clickline.data.batch import Batch
from clickline.data.schema import Schema
from clickline.serve.requests import Question, refuse


class FeatureReader:
    """Reads features as the training's own parser does."""

    def __init__(self, schema: Schema) -> None:
        from dataclasses import replace

        self._parser = replace(schema, format="parquet").parser(labelled=False)
        self.columns = tuple(self._parser.columns)

    def from_json(self, body: bytes, *, most_rows: int) -> Question:
        try:
            instances: list[dict[str, Any]] = json.loads(body)["instances"]
        except (ValueError, KeyError, TypeError) as error:
            raise refuse("malformed", f"not a request: {error}") from error
        if len(instances) > most_rows:
            raise refuse("too_large", f"{len(instances)} rows; at most {most_rows}")
        columns = {name: pa.array([one.get(name) for one in instances]) for name in self.columns}
        missing = sum(column.null_count for column in columns.values())
        parsed = parse_table(self._parser, pa.record_batch(columns))
        if parsed.bad:
            raise refuse("malformed", str(parsed.errors))
        labels = np.zeros((len(instances), 1), np.float32)
        return Question(Batch(labels=labels, dense=parsed.dense, keys=parsed.keys, offsets=parsed.offsets), missing)
