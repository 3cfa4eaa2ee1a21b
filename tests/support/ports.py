"""Ports in a row that nobody has: not from the range that the system gives to whoever asks for any port."""

from __future__ import annotations

import itertools
import os
import socket

_FIRST, _PER_WORKER = 10_000, 1_000
_WORKERS = 16
"""Ranges of port_range end below 26,000; with an offset of 1,000 for a coordinator, below 27,000."""
_started = itertools.count()


def port_range(count: int) -> int:
    """The first of `count` free ports in a row. Each process of pytest-xdist has ports of its own, and goes round."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) * 2 % _WORKERS
    for _ in range(_PER_WORKER // 10):
        offset = (next(_started) * 10 + os.getpid() * 50) % (_PER_WORKER - count)
        first = _FIRST + worker * _PER_WORKER + offset
        if all(map(is_free, range(first, first + count))):
            return first
    raise AssertionError(f"no {count} free ports in a row")


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
