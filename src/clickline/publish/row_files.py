"""The rows of a version: every row of every table for a base, what differs from the parent for a delta.

A delta is made by comparing what would be published with what was: rows whose published bytes are new or different, and
the keys that are gone. So it does not matter how a row changed, or whether a job was resumed in between, and a row that
rounds to the same 8 bits is not sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from clickline import _native
from clickline.errors import VersionError
from clickline.train.learner import Learner
from clickline.versions.chain import Chain
from clickline.versions.manifest import DTYPES, Dtype, TableFacts

LONGEST = 32
"""Deltas on one base before `auto` publishes a base again: every one is a place to look for a missing key."""
LARGEST = 0.5
"""Share of rows that changed above which `auto` publishes a base: it is hardly larger, and needs no parent."""
_FULL = ".full"


@dataclass(frozen=True)
class WrittenRows:
    """The row files that were written into a version's directory."""

    kind: str
    tables: dict[str, TableFacts]


def table_file(name: str) -> str:
    return f"{name}.dict"


def tables_of(learner: Learner, dtype: Dtype) -> dict[str, TableFacts]:
    """What the tables will be, before any row is written."""
    return {
        name: TableFacts(dim=table.dim, dtype=dtype, rows=0, deleted=0, total=len(table), files=[table_file(name)])
        for name, table in learner.sparse.tables.items()
    }


def write_rows(
    learner: Learner,
    into: Path,
    *,
    dtype: Dtype,
    parent: Chain | None,
    or_base: bool,
    progress: Callable[[float, str], None],
) -> WrittenRows:
    """Write all tables. With `or_base`, a delta that would be about as large as a base becomes one."""
    tables = learner.sparse.tables
    threads = learner.sparse.threads
    full: dict[str, _native.DictionaryFacts] = {}
    changed: dict[str, _native.DictionaryFacts] = {}
    steps = len(tables) * (1 if parent is None else 2)
    for name, table in tables.items():
        path = into / (table_file(name) + _FULL)
        progress((len(full) + len(changed)) / steps, name)
        with _explained(path):
            full[name] = table.write_dictionary(str(path), dtype=DTYPES[dtype], threads=threads)
        if parent is None:
            continue
        progress((len(full) + len(changed)) / steps, f"{name}: what changed")
        with _explained(path):
            new = [_native.Dictionary(str(path))]
            changed[name] = _native.difference_dictionary(
                str(into / table_file(name)), parent.layers[name], new, threads=threads
            )
    # All rows are written first, also for a delta: the difference is that of two sets of published bytes.
    rows = sum(facts["count"] for facts in full.values())
    differing = sum(facts["count"] + facts["deleted"] for facts in changed.values())
    is_base = parent is None or (or_base and differing > LARGEST * rows)
    # The delta has the final name already; if a base is published after all, the full rows overwrite it.
    for name in tables:
        path = into / (table_file(name) + _FULL)
        if is_base:
            path.replace(into / table_file(name))
        else:
            path.unlink()
    written = full if is_base else changed
    written_tables = {
        name: one.model_copy(
            update={"rows": written[name]["count"], "deleted": written[name]["deleted"], "total": full[name]["count"]}
        )
        for name, one in tables_of(learner, dtype).items()
    }
    return WrittenRows("base" if is_base else "delta", written_tables)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, OSError, ValueError) as error:
        raise VersionError(f"{path}: {error}") from error
