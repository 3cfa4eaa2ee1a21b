"""Cube's donefiles: base.txt and patch.txt, one JSON object per line for each product, appended when it is there.

A base's key is its id; a patch's key is the id of its base, and its own id is larger. Ids are numbers, also where they
are written as strings. A last line that is not complete yet is left alone until it is; any other bad line is an error
that names it, since a product that is skipped would be missed for ever.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import fsspec

from clickline.compat.cube.locations import beside, is_web, join, read_bytes
from clickline.errors import DataError
from clickline.files.locks import lock

Kind = Literal["base", "patch"]
_LARGEST = 64 << 20
_LARGEST_ID = 2**63


@dataclass(frozen=True, slots=True)
class Product:
    """One line: a directory of SequenceFiles that is complete."""

    kind: Kind
    id: int
    key: int
    """Of the base that it belongs to."""
    input: str
    """Its directory; on the donefile's host, where that is read by HTTP or FTP."""


def read(directory: str, kind: Kind) -> list[Product]:
    """All products of one kind, in the order of their lines; none if there is no such donefile yet."""
    address = join(directory, f"{kind}.txt")
    return parse(read_bytes(address, limit=_LARGEST) or b"", kind, place=address)


def parse(data: bytes, kind: Kind, *, place: str) -> list[Product]:
    """The products of a donefile's bytes; `place` is for messages and for whose host the inputs are on."""
    lines = data.split(b"\n")
    products = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            products.append(_product(line, kind, place))
        except ValueError as error:
            if number == len(lines):  # no end of line: it is being written
                break
            shown = line[:80].decode("utf-8", "backslashreplace")
            raise DataError(f"'{place}', line {number} is garbled: {error}. It says: {shown}") from None
    return products


def choose(bases: Sequence[Product], patches: Sequence[Product], *, current: Product | None) -> Product | None:
    """What to deliver next. The last base, if it is newer than the one in service; else the first patch of that base
    with a larger id than what is in service, so that patches apply in order. None if there is nothing new.
    """
    if bases and (current is None or bases[-1].id > current.key):
        return bases[-1]
    if current is None:
        return None
    fitting = (patch for patch in patches if patch.id > current.id and patch.key == current.key)
    return next(fitting, None)


def next_product(directory: str, *, current: Product | None, patches: bool = True) -> Product | None:
    """Read both donefiles and choose. Without patches, as of mode base_only, only bases count."""
    return choose(read(directory, "base"), read(directory, "patch") if patches else [], current=current)


def append(directory: str, kind: Kind, *, id: int, input: str, key: int | None = None) -> Product:
    """Announce a product: the last thing that its maker does. What a crash left of a line before is removed."""
    if kind == "patch" and key is None:
        raise DataError("a patch needs a key: the id of its base")
    line = json.dumps({"id": str(id), "key": str(id if key is None else key), "input": input}, ensure_ascii=False)
    try:
        product = _product(line.encode(), kind, "")
    except ValueError as error:
        raise DataError(f"no donefile can hold this: {error}") from None
    if is_web(directory):
        raise DataError(f"a donefile cannot be written by HTTP: '{directory}'; upload it, or write it where it is")
    address, data = join(directory, f"{kind}.txt"), line.encode() + b"\n"
    if "://" in address:
        system, name = fsspec.core.url_to_fs(address)
        system.makedirs(system._parent(name), exist_ok=True)
        # Object stores cannot append or lock: such a donefile must have a single writer.
        before = read_bytes(address, limit=_LARGEST) or b""
        system.pipe_file(name, before[: _complete(before, kind)] + _gap(before, kind) + data)
    else:
        _append_locally(Path(address), data, kind)
    return product


def _append_locally(path: Path, data: bytes, kind: Kind) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        # Another maker could take a line that is being written for the rest of a crash, and cut it off.
        lock(file)
        file.seek(0)
        before = file.read(_LARGEST)
        # The file is open for appending: the write below goes to the new end, wherever the read left the position.
        file.truncate(_complete(before, kind))
        file.write(_gap(before, kind) + data)
        file.flush()
        os.fsync(file.fileno())


def _complete(before: bytes, kind: Kind) -> int:
    """How many bytes are whole lines, or a last one that only lacks its end."""
    whole = before.rfind(b"\n") + 1
    return len(before) if _gap(before, kind) else whole


def _gap(before: bytes, kind: Kind) -> bytes:
    """The end of a line that is whole but for it."""
    # Readers accept a last line without its end once it parses, and JSON without its closing brace never does.
    # So such a line may have been delivered already and must stay.
    last = before[before.rfind(b"\n") + 1 :]
    try:
        _product(last, kind, "")
    except ValueError:
        return b""
    return b"\n"


def _product(line: bytes, kind: Kind, place: str) -> Product:
    try:
        fields = json.loads(line.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(fields, dict):
        raise ValueError("an object with id, key and input is expected")
    number, key = _number(fields, "id"), _number(fields, "key")
    if not isinstance(fields.get("input"), str) or not fields["input"] or "\0" in fields["input"]:
        raise ValueError(f"'input' must be the path of a directory, got {fields.get('input')!r:.40}")
    if kind == "base" and number != key:
        raise ValueError(f"a base's key must be its id {number}, got {key}")
    if kind == "patch" and number <= key:
        raise ValueError(f"a patch's id must be larger than its key {key}, got {number}")
    return Product(kind, number, key, beside(place, fields["input"]))


def _number(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST_ID:
        raise ValueError(f"'{name}' must be a number, got {value!r:.40}")
    return value
