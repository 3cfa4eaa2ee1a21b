"""Dictionaries from plain dicts: key to bytes, or to None for a deleted key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from clickline._native import Dictionary, bucket_of, write_dictionary

Rows = Mapping[int, bytes | None]
Write = Callable[..., Dictionary]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes rows, those of the buckets only, and opens them; row_bytes 0 is for values of any size."""

    def write(
        rows: Rows, *, row_bytes: int = 4, first: int = 0, last: int = 4096, name: str | None = None
    ) -> Dictionary:
        mine = {key: value for key, value in rows.items() if first <= bucket_of(key) < last}
        kept = {key: value for key, value in mine.items() if value is not None}
        joined = np.frombuffer(b"".join(kept.values()), np.uint8)
        sizes = [len(value) for value in kept.values()]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)
        path = tmp_path / (name or f"{len(list(tmp_path.iterdir()))}.dict")
        write_dictionary(
            path,
            np.fromiter(kept, np.uint64, len(kept)),
            joined.reshape(len(kept), row_bytes) if row_bytes else (offsets, joined),
            dtype=0,
            dim=0,
            deleted=np.array([key for key, value in mine.items() if value is None], np.uint64),
            first_bucket=first,
            last_bucket=last,
        )
        return Dictionary(path)

    return write
