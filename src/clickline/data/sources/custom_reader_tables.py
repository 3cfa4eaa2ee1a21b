"""Rows of a reader of the user's own as Arrow record batches, with the reasons of those that are malformed.

A malformed row is a row of nulls, which the parser refuses as one without a label; the reason is in the metadata of the
batch. So rows keep their numbers, wherever a batch is cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from clickline.errors import DataError

ROWS_PER_TABLE = 4096
_REASONS = b"clickline.malformed"
_NOT_A_VALUE = "is neither text, a number, None nor a list of these"


class TableColumns:
    """The columns of a file so far: rows may differ in theirs."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def table(self, rows: Sequence[Mapping[str, object]], reasons: dict[int, str]) -> pa.RecordBatch:
        """Some rows as a batch. `reasons` are those of malformed ones, by number from 0; more may be found."""
        # Not from_pylist: it takes the first row's columns for those of all.
        self._names.update(dict.fromkeys(name for row in rows for name in row))
        if not self._names:
            first = reasons.get(0, "a row without columns")
            raise DataError(f"none of the first {len(rows)} rows could be read; the first: {first}")
        # Columns of earlier tables are included: the parser refuses a table that lacks a column of the job. This also
        # completes `reasons`, which the lines below depend on.
        arrays = {name: _array(name, [row.get(name) for row in rows], reasons) for name in self._names}
        if not reasons:
            return pa.RecordBatch.from_pydict(arrays)
        bad = pa.array([number in reasons for number in range(len(rows))])
        for name, array in arrays.items():
            arrays[name] = pc.if_else(bad, pa.scalar(None, array.type), array)
        metadata = {_REASONS: json.dumps(reasons).encode()}
        return pa.RecordBatch.from_pydict(arrays).replace_schema_metadata(metadata)


def _array(name: str, values: list[Any], reasons: dict[int, str]) -> pa.Array:
    try:
        array = pa.array(values)
    except (pa.ArrowException, OverflowError):
        pass
    else:
        if not pa.types.is_nested(array.type) or pa.types.is_list(array.type):
            return array
    # Values of several types, or one that is none: as text, which means the same to the parser.
    several = any(isinstance(value, list | tuple) for value in values)
    texts: list[Any] = []
    for number, value in enumerate(values):
        try:
            text = _text(value)
        except TypeError as error:
            reasons.setdefault(number, f"column {name!r}: {error}")
            text = None
        texts.append([text] if several and text is not None and not isinstance(text, list) else text)
    return pa.array(texts, pa.list_(pa.string()) if several else pa.string())


def reasons_of(batch: Any, *, first: int) -> dict[int, str]:
    """Why rows of a batch are malformed: number from 1, of a part that begins with row `first`, to reason."""
    metadata = batch.schema.metadata if isinstance(batch, pa.RecordBatch) else None
    if not metadata or _REASONS not in metadata:
        return {}
    found = {int(number) - first + 1: reason for number, reason in json.loads(metadata[_REASONS]).items()}
    return {number: reason for number, reason in found.items() if number > 0}


def _text(value: Any) -> Any:
    """A value as text, or a list of texts. Raises TypeError for anything else."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return [_text(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # 7.0 is the category 7
    if isinstance(value, bool | int | float):
        return str(int(value) if isinstance(value, bool) else value)
    raise TypeError(f"{type(value).__name__} {_NOT_A_VALUE}")
