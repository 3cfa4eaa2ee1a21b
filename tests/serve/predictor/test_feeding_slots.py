"""A network gets the slots that it names in the order in which it names them, as in training."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from clickline.config.features import Slot
from clickline.data.batch import Batch
from clickline.data.schema import Schema
from clickline.serve.predictor.input_builder import InputBuilder
from clickline.versions.manifest import TableFacts

SCHEMA = Schema("csv", ("click",), tuple(Slot(name=name) for name in ("a", "b", "c")), ())
TABLES = {"rows": TableFacts(dim=2, dtype="fp32", rows=0, deleted=0, total=0, files=["rows.dict"])}


class KeysAsRows:
    """The row of key k is [k, -k]."""

    def rows(self, table: str, keys: NDArray[np.uint64]) -> tuple[NDArray[np.float32], int]:
        values = keys.astype(np.float32)[:, None]
        return np.concatenate([values, -values], axis=1), 0


@pytest.mark.parametrize("rows", [3, 5000], ids=["few", "many"])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("slots", [["a", "b", "c"], ["c", "a"], ["b"], ["c", "b", "a"]], ids="".join)
def test_slots_come_in_the_order_of_the_input(rows: int, ragged: bool, slots: list[str]) -> None:
    inputs = {"wanted": {"table": "rows", "slots": slots, "shape": ["batch", len(slots), 2]}}
    feeder = InputBuilder(inputs, SCHEMA, names=["wanted"], tables=TABLES)
    keys = np.arange(1, 3 * rows + 1, dtype=np.uint64)
    offsets = np.arange(3 * rows + 1, dtype=np.int64) if ragged else None
    batch = Batch(np.zeros((rows, 1), np.float32), np.zeros((rows, 0), np.float32), keys, offsets)
    expected = keys.reshape(rows, 3)[:, ["abc".index(slot) for slot in slots]].astype(np.float32)
    found = feeder.build(batch, KeysAsRows()).feeds["wanted"]
    np.testing.assert_array_equal(found, np.stack([expected, -expected], axis=2))
