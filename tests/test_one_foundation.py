"""What every layer needs is written once: locks, token checks, file systems by URL, listening sockets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import clickline

SOURCE = Path(clickline.__file__).parent


@pytest.mark.parametrize(
    ("words", "homes"),
    [
        ("import fcntl", ["files/locks.py", "net/own_addresses.py"]),  # there for ioctl
        ("compare_digest(", ["net/tokens.py"]),
        # What runs on a host before Clickline is known to be there has nothing but Python.
        (".is_loopback", ["net/addresses.py", "launch/ssh/remote/"]),
        ("url_to_fs(", ["compat/", "files/storage.py"]),  # compat: FTP, with options of its own
        # collective: for PyTorch's store; cube/layouts: whether a name is known, whatever its addresses are
        (
            "getaddrinfo(",
            [
                "collective/",
                "cube/layouts/service_layout.py",
                "launch/ssh/remote/",
                "net/listening_sockets.py",
                "net/own_addresses.py",
            ],
        ),
        ("not an address to listen on", ["net/addresses.py"]),
        ("msgspec.convert(", ["files/typed_json.py"]),  # a type's first use must not be two threads'
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_there_is_one_of_it(words: str, homes: list[str]) -> None:
    files = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if words in path.read_text()]
    assert files, f"{words!r} is nowhere; is this test out of date?"
    strangers = [file for file in files if not file.startswith(tuple(homes))]
    assert not strangers, f"use what {', '.join(homes)} has instead of {words!r}"


def test_no_type_is_learnt_by_msgspec_while_threads_run() -> None:
    """`msgspec.json.decode(..., type=T)` crashes if it is two threads' first use of T: files/typed_json has a lock."""
    call = re.compile(r"msgspec\.(json|msgpack)\.decode\([^\n]*type=")
    files = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if call.search(path.read_text())]
    assert not files, "use decode_json of clickline.files.typed_json"
