"""A directory as a page for people and as JSON for programs."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NotRequired, TypedDict
from urllib.parse import quote

from clickline.fileserver.served_directory import DirectoryEntry

_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body{{font-family:monospace}}td{{padding-right:2em}}td.n{{text-align:right}}</style></head>
<body><h1>{title}</h1>
<table>
{rows}</table></body></html>
"""


class ListedEntry(TypedDict):
    """A file or directory of a listing; directories have no size."""

    name: str
    type: str
    bytes: NotRequired[int]
    modified: float


class Listing(TypedDict):
    """A directory's contents."""

    path: str
    entries: list[ListedEntry]


def as_json(path: str, entries: Sequence[DirectoryEntry]) -> Listing:
    """`path` is as asked for, without the slash before it."""
    return {
        "path": "/" + path,
        "entries": [
            {"name": entry.name, "type": "directory", "modified": entry.modified}
            if entry.is_directory
            else {"name": entry.name, "type": "file", "bytes": entry.size, "modified": entry.modified}
            for entry in entries
        ],
    }


def as_html(path: str, entries: Sequence[DirectoryEntry]) -> str:
    """Links are relative, so that they are right wherever the server is mounted."""
    up = '<tr><td><a href="../">../</a></td><td></td><td></td></tr>\n' if path.strip("/") else ""
    return _PAGE.format(title=html.escape("/" + path), rows=up + "".join(map(_row, entries)))


def _row(entry: DirectoryEntry) -> str:
    name = entry.name + ("/" if entry.is_directory else "")
    when = datetime.fromtimestamp(int(entry.modified), UTC).strftime("%Y-%m-%d %H:%M:%S")
    size = "" if entry.is_directory else f"{entry.size:,}"
    # "./" so that a name with a colon is not taken for a protocol.
    return (
        f'<tr><td><a href="./{quote(name)}">{html.escape(name)}</a></td><td class="n">{size}</td><td>{when}</td></tr>\n'
    )
