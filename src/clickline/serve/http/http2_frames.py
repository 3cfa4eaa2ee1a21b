"""Heads of HTTP/2 frames, parsed to know which calls of a connection are still being sent.

Only the nine bytes at the head of each frame are read; what is inside belongs to gRPC.
"""

from __future__ import annotations

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM = 0, 1, 3
END_STREAM = 1
_HEAD = 9
MOST_OPEN = 4096
"""Calls of one connection; gRPC refuses fewer than that already."""


class FrameHeads:
    """The frame heads in one direction of a connection."""

    def __init__(self, *, skip: int = 0) -> None:
        """`skip`: bytes before the first frame."""
        self._skip, self._partial = skip, b""

    def feed(self, data: bytes) -> list[tuple[int, int, int]]:
        """Kind, flags and stream of each frame whose head is complete now."""
        heads: list[tuple[int, int, int]] = []
        if self._partial:
            data, self._partial = self._partial + data, b""
        at, end = self._skip, len(data)
        while at + _HEAD <= end:
            heads.append((data[at + 3], data[at + 4], int.from_bytes(data[at + 5 : at + _HEAD]) & 0x7FFFFFFF))
            at += _HEAD + int.from_bytes(data[at : at + 3])
        # Either a payload continues in the next bytes (`_skip`), or a head is incomplete (`_partial`, at most 8 bytes);
        # never both.
        self._skip = max(0, at - end)
        self._partial = data[at:]
        return heads


class OpenCalls:
    """Calls of a connection whose client has more to send, and when each began."""

    def __init__(self) -> None:
        self._from_client, self._from_server = FrameHeads(skip=len(PREFACE)), FrameHeads()
        self._since: dict[int, float] = {}
        self.calls = 0
        """Calls that have ever begun."""

    def client_sent(self, data: bytes, now: float) -> None:
        since = self._since
        for kind, flags, stream in self._from_client.feed(data):
            # A second HEADERS frame of an open stream holds trailers and begins no call.
            if kind == HEADERS and stream not in since:
                self.calls += 1
                if not flags & END_STREAM:
                    since[stream] = now
            elif (kind in (DATA, HEADERS) and flags & END_STREAM) or kind == RST_STREAM:
                since.pop(stream, None)

    def server_sent(self, data: bytes) -> None:
        for kind, flags, stream in self._from_server.feed(data):
            if (kind == HEADERS and flags & END_STREAM) or kind == RST_STREAM:  # the server needs no more of it
                self._since.pop(stream, None)

    @property
    def oldest(self) -> float | None:
        """When the oldest of them began; None if all calls have come completely."""
        # Calls are inserted when they begin, so the first entry is the oldest.
        return next(iter(self._since.values())) if self._since else None

    @property
    def too_many(self) -> bool:
        return len(self._since) > MOST_OPEN
