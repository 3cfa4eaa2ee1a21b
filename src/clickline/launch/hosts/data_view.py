"""Whether hosts see the data of a job, found out on each of them before anything is started.

    python -m clickline.launch.hosts.data_view DIRECTORY < PATHS

Where `data.placement` says that all hosts see all files, they must all see the same ones. Files at URLs are left to
those who read them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from clickline.config.data import Data
from clickline.data.sources.files import find
from clickline.errors import DataError
from clickline.files.storage import is_url
from clickline.files.typed_json import decode_json


class DataView(msgspec.Struct, frozen=True, kw_only=True):
    """What a host sees of some paths."""

    files: int = 0
    bytes: int = 0
    problem: str = ""


def paths_for_all(data: Data) -> list[str]:
    """The paths of a job that every host with trainers must see; none, if hosts have files of their own."""
    if data.placement == "node":
        return []
    return [path for path in (*data.train, *data.valid, *data.test) if not is_url(path)]


def view_data(paths: Sequence[str], *, directory: Path) -> DataView:
    """What this host sees of them; relative ones begin in the directory."""
    try:
        files = find([str(directory / Path(path).expanduser()) for path in paths], options={})
        return DataView(files=len(files), bytes=sum(file.size or 0 for file in files))
    except (DataError, OSError) as error:
        return DataView(problem=str(error))


def problems_of_views(views: Mapping[str, DataView]) -> list[str]:
    """What is wrong with the data of hosts, each named; the first one that sees all of it is compared with."""
    problems = [
        f"{host}: {view.problem} (data.placement says that every host sees it)"
        for host, view in views.items()
        if view.problem
    ]
    # Sizes, not contents: a host with an older copy of the data is what happens, and reading it all would take hours.
    whole = {host: view for host, view in views.items() if not view.problem}
    first = next(iter(whole), "")
    for host, view in whole.items():
        if view != whole[first]:
            problems.append(
                f"{host}: it sees {view.files} files of data with {view.bytes:,} bytes, {first} sees "
                f"{whole[first].files} with {whole[first].bytes:,}: all must have the same, or data.placement: node"
            )
    return problems


def main() -> None:
    paths = decode_json(sys.stdin.buffer.read(), list[str])
    sys.stdout.buffer.write(msgspec.json.encode(view_data(paths, directory=Path(sys.argv[1]))) + b"\n")


if __name__ == "__main__":
    main()
