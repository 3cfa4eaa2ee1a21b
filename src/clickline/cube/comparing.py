"""Whether the cube holds what was trained: every row of every table read back over the network and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from clickline import _native
from clickline.cube.client import FOUND, OK, Cube
from clickline.errors import PeerError

_BATCH = 20_000


@dataclass(frozen=True)
class Comparison:
    """What was found, in rows."""

    version: int
    rows: int
    missing: int
    different: int

    @property
    def equal(self) -> bool:
        return self.missing == 0 and self.different == 0


def compare_rows(
    cube: Cube,
    tables: Mapping[str, _native.Table],
    *,
    version: int,
    progress: Callable[[int, int], None] = lambda done, all_: None,
) -> Comparison:
    """Read all keys of the trainer's tables from the cube, of one version; rows must be equal to the bit."""
    total = sum(len(table) for table in tables.values())
    rows = missing = different = 0
    for name, table in tables.items():
        keys = table.keys()
        for first in range(0, len(keys), _BATCH):
            some = keys[first : first + _BATCH]
            found = cube.get(name, some, version=version)
            if found.code != OK:
                raise PeerError(f"the cube could not be asked for rows of {name!r}: {'; '.join(found.errors)}")
            there = found.status == FOUND
            same = (found.decoded().view(np.uint32) == table.rows(some).view(np.uint32)).all(axis=1)
            missing += int((~there).sum())
            different += int((there & ~same).sum())
            rows += len(some)
            progress(rows, total)
    return Comparison(version=version, rows=rows, missing=missing, different=different)
