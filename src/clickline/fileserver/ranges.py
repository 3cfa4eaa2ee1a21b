"""Which bytes of a file a request wants: conditions, ranges, and how several ranges are put into one answer.

Several ranges are answered as multipart/byteranges. More than 16, or ones that overlap, are refused with 416, as RFC
9110 (14.2) suggests against requests that cost more than they are worth. A header that is not a byte range is ignored.
"""

from __future__ import annotations

import re
from email.utils import formatdate, parsedate_to_datetime
from itertools import pairwise

_MOST_RANGES = 16
_MOST_DIGITS = 19  # more than any file has bytes
_RANGE = re.compile(r"(\d*)-(\d*)", re.ASCII)
Range = tuple[int, int]
"""First byte, and the byte behind the last."""


class NoSuchRange(Exception):
    """Raised when none of the ranges is within the file, or there are too many."""


def wanted(header: str | None, size: int) -> list[Range] | None:
    """The ranges in the order of the request; None for the whole file."""
    unit, equals, text = (header or "").partition("=")
    if unit.strip().lower() != "bytes" or not equals:
        return None
    specs = [spec.strip() for spec in text.split(",") if spec.strip()]
    ranges: list[Range] = []
    for spec in specs:
        match = _RANGE.fullmatch(spec)
        if match is None or spec == "-" or any(len(digits) > _MOST_DIGITS for digits in match.groups()):
            return None
        first, last = match.groups()
        # Such a range makes the whole header invalid, and an invalid header is ignored (RFC 9110, 14.1.1 and 14.2).
        if first and last and int(last) < int(first):
            return None
        # "-500" are the last 500 bytes, "500-" is everything from byte 500 on.
        begin = int(first) if first else max(size - int(last), 0)
        end = min(int(last) + 1, size) if first and last else size
        if begin < end:
            ranges.append((begin, end))
    if not specs:
        return None
    ordered = sorted(ranges)
    overlapping = any(one[1] > other[0] for one, other in pairwise(ordered))
    if not ranges or len(specs) > _MOST_RANGES or overlapping:
        raise NoSuchRange
    return ranges


def unchanged(etag: str, modified_ns: int, *, if_none_match: str | None, if_modified_since: str | None) -> bool:
    """Whether the client has this version of the file already."""
    # It takes precedence over If-Modified-Since, and tags are compared weakly (RFC 9110, 13.1.2 and 13.1.3).
    if if_none_match is not None:
        known = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
        return etag in known or "*" in known
    asked = _seconds(if_modified_since)
    return asked is not None and modified_ns // 10**9 <= asked


def range_applies(etag: str, modified_ns: int, *, if_range: str | None) -> bool:
    """Whether If-Range, if it is there, names this version of the file. Otherwise the whole file is sent."""
    if if_range is None:
        return True
    # If-Range needs a strong comparison (RFC 9110, 13.1.5): a weak tag never matches, and a date must be the same.
    if if_range.strip().startswith(('"', "W/")):
        return if_range.strip() == etag
    return if_range.strip() == http_date(modified_ns)


def http_date(modified_ns: int) -> str:
    return formatdate(modified_ns // 10**9, usegmt=True)


def multipart(ranges: list[Range], size: int, *, kind: str, boundary: str) -> tuple[list[bytes], bytes]:
    """What stands before each range, and behind the last."""
    heads = [
        f"\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: bytes {begin}-{end - 1}/{size}\r\n\r\n".encode()
        for begin, end in ranges
    ]
    heads[0] = heads[0].removeprefix(b"\r\n")
    return heads, f"\r\n--{boundary}--\r\n".encode()


def _seconds(date: str | None) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, OverflowError, TypeError):
        return None
