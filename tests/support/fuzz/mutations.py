"""Inputs made of good ones: bytes replaced, cut, doubled; words that are known to hurt; other values in JSON."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus"
WORDS = [
    b"",
    b"\0",
    b"\xff\xfe",
    b"..",
    b"/../",
    b"%2e%2e%2f",
    b"%00",
    b"/etc/passwd",
    b"1e999",
    b"-1e999",
    b"NaN",
    b"-1",
    b"0",
    b"1.5",
    b"18446744073709551616",
    b"9" * 30,
    b"9" * 5000,
    b"0" * 5000,
    b'"\\ud800"',
    b"\\u0000",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b'""',
    b"[" * 20_000,
    b'{"a":' * 5000,
    b"\n",
    b"\r\n",
    b'"',
    b"x" * 300,
    b"x" * 70_000,
]
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    2**63,
    2**64,
    10**30,
    float("inf"),
    float("nan"),
    "",
    "\0",
    "\ud800",
    "..",
    "../../outside/made",
    "/etc/passwd",
    "a/b",
    ".",
    "-1",
    "²",
    "1_0",
    "9" * 5000,
    "x" * 300,
    "[" * 20_000,
    [],
    {},
    [1],
    [None],
    {"": None},
    {"../../outside/made": {}},
    {"\ud800": {}},
]


def corpus(kind: str) -> list[Path]:
    """Kept inputs, always replayed: good ones, and whatever once was a finding."""
    return sorted((CORPUS / kind).iterdir())


def edited(content: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for place, length, new in edits:
        at = place % (len(content) + 1)
        content = content[:at] + new + content[at + length :]
    return content


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*at, key)
        yield from places(one, (*at, key))


def replaced(text: bytes, choices: list[tuple[int, int, Any]]) -> bytes:
    """JSON with values, keys or elements exchanged; anything else as it is."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for where, how, value in choices:
        known = list(places(whole))
        if not known:
            break
        *path, last = known[where % len(known)]
        inside = whole
        for key in path:
            inside = inside[key]
        if how == 0:
            del inside[last]
        elif how == 1 and isinstance(inside, dict) and isinstance(value, str):
            inside[value] = inside.pop(last)
        elif how == 2 and isinstance(inside, list):
            inside.append(copy.deepcopy(value))
        else:
            inside[last] = copy.deepcopy(value)
    return json.dumps(whole).encode()


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
anything = st.sampled_from(VALUES) | scalars | st.lists(scalars, max_size=3)
_edits = st.lists(
    st.tuples(
        st.integers(0, 1 << 16),
        st.sampled_from([0, 0, 1, 2, 5, 20, 300, 1 << 20]),
        st.sampled_from(WORDS) | st.binary(max_size=8),
    ),
    min_size=1,
    max_size=4,
)
_choices = st.lists(st.tuples(st.integers(0, 1 << 10), st.integers(0, 6), anything), min_size=1, max_size=3)


def mutated(kind: str, *, split: bytes = b"") -> st.SearchStrategy[bytes]:
    """Of a kind of input. With `split`, what follows it is a body of JSON, as in a request."""
    good = st.sampled_from([path.read_bytes() for path in corpus(kind)])

    def body_replaced(content: bytes, choices: list[tuple[int, int, Any]]) -> bytes:
        head, middle, body = content.partition(split) if split else (b"", b"", content)
        return head + middle + replaced(body, choices)

    return st.builds(edited, good, _edits) | st.builds(body_replaced, good, _choices)
