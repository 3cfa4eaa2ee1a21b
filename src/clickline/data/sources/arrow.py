"""Arrow record batches for the native parser: Parquet files, and readers of the user's own.

Nothing is copied for the types that logs are made of; the rest is cast to one of them first. What a value means does
not depend on its type: 7 as an integer, as text and as a whole float is the same category, with the same key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from clickline._native import Parsed, Parser
from clickline.data.missing_columns import missing_column
from clickline.errors import DataError

if TYPE_CHECKING:
    from clickline._native import ArrowColumn

_AS_THEY_ARE = {
    pa.string(): "text32",
    pa.binary(): "text32",
    pa.large_string(): "text64",
    pa.large_binary(): "text64",
    pa.int64(): "int64",
    pa.uint64(): "uint64",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.bool_(): "boolean",
}


def parse_table(parser: Parser, table: pa.RecordBatch | pa.Table) -> Parsed:
    """Rows of a record batch, or of a table; columns that the parser does not use are ignored."""
    batch = _one_batch(table)
    known = batch.schema.names
    for name in parser.columns:
        if known.count(name) != 1:
            if name not in known:
                raise DataError(missing_column(name, known))
            raise DataError(f"there is more than one column {name!r} in the data; its columns are: {', '.join(known)}")
    return parser.parse_columns(batch.num_rows, [_column(name, batch.column(name)) for name in parser.columns])


def _one_batch(table: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    if isinstance(table, pa.RecordBatch):
        return table
    if not isinstance(table, pa.Table):
        raise DataError(f"expected a pyarrow RecordBatch or Table, got {type(table).__name__}")
    # Chunks stay apart only where text has more bytes than its 32-bit offsets can count.
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        raise DataError(f"a table of {table.num_rows} rows is too large for one block; yield it in smaller ones")
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _column(name: str, array: pa.Array) -> ArrowColumn:
    array = _decoded(array)
    kind = array.type
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return (name, *_values(name, array), None)
    # The native parser knows one kind of list, with 64-bit offsets. Buffers are handed over without copying them.
    if not types.is_large_list(kind):
        array = array.cast(pa.large_list(kind.value_type))
    # `values` and not `flatten()` below: list offsets count from the beginning of the child array, also in a slice.
    validity, starts = array.buffers()[:2]
    return (name, *_values(name, _decoded(array.values)), (array.offset, validity, starts))


def _values(name: str, array: pa.Array) -> tuple[str, int, int, Any, Any, Any]:
    """Kind, offset, length, and the buffers: validity, starts (text only), values."""
    array = _castable(name, array)
    kind = _AS_THEY_ARE[array.type]
    validity, *starts, values = array.buffers()
    return kind, array.offset, len(array), validity, starts[0] if starts else None, values


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if types.is_dictionary(array.type) else array


def _castable(name: str, array: pa.Array) -> pa.Array:
    kind = array.type
    if kind in _AS_THEY_ARE:
        return array
    # Other types are converted to one of those that the native parser reads.
    if types.is_integer(kind):
        return array.cast(pa.int64())
    if types.is_float16(kind):
        return array.cast(pa.float32())
    # safe=False, because a safe cast refuses times with fractions of a second instead of cutting them off.
    if types.is_timestamp(kind) or types.is_date(kind):  # as the time of a row: whole seconds
        return array.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    if types.is_decimal(kind) or types.is_null(kind) or str(kind) in {"string_view", "binary_view"}:
        return array.cast(pa.large_binary() if str(kind) == "binary_view" else pa.large_string())
    raise DataError(
        f"column '{name}' has the type {kind}, which is neither text, number, boolean nor a list of these; "
        "flatten it, or leave it out of the job"
    )
