"""Which part of the vector of dense parameters a server keeps: server s of N has the s-th block."""

from __future__ import annotations


def block_of(size: int, *, part: int, parts: int) -> tuple[int, int]:
    """Where a server's block begins and ends in the vector."""
    return size * part // parts, size * (part + 1) // parts
