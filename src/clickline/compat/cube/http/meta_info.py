"""Cube's meta info of a build: how large its index and data would be, which its readers compare with the keys.

OUT/meta_info/<version>_<base>_<shard>_0.json
"""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from clickline.cube.builder.build_record import BuildRecord, BuiltFile
from clickline.files.json_state import write_state

META = "meta_info"
_INDEX_ENTRY = 16
"""Bytes of a key in Cube's index."""
_VALUE_HEADER = 4
"""Bytes before each value in Cube's data."""


class MetaInfo(TypedDict):
    """Sizes as Cube writes them: whole numbers as text."""

    index_total_count: str
    data_len_list: list[str]
    index_len_list: list[str]


def meta_info(file: BuiltFile) -> MetaInfo:
    """The meta info of one shard."""
    tables = file.tables.values()
    return {
        "index_total_count": str(sum(table.count for table in tables)),
        "data_len_list": [str((_VALUE_HEADER + table.row_bytes) * table.count) for table in tables],
        "index_len_list": [str(_INDEX_ENTRY * table.count) for table in tables],
    }


class MetaInfoFiles:
    """Keeps the meta info of every build beside the builds: a `BuildListener`."""

    def written(self, out: Path, record: BuildRecord) -> None:
        for shard, file in enumerate(record.files.values()):
            path = out / META / f"{record.version}_{record.base}_{shard}_0.json"
            write_state(path, meta_info(file))

    def removed(self, out: Path, base: int, version: int) -> None:
        for path in (out / META).glob(f"{version}_{base}_*_0.json"):
            path.unlink(missing_ok=True)
