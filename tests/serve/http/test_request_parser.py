"""However bytes are cut into pieces, and whatever is wrong with them: the same requests come out, or one refusal."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from clickline.net.request_errors import RequestError
from clickline.serve.http.http_messages import Request
from clickline.serve.http.request_parser import RequestParser
from support.serving.raw_http import chunked, get, post

WHOLE = [
    get("/v2?query", "Accept: */*"),
    post("/predict", b'{"instances":[{}]}', "Content-Type: application/json"),
    chunked("/models/ctr/predict", b"some", b"more", b"x" * 40),
    post("/predict", b"body", "Connection: Upgrade", "Upgrade: h2c"),
    post("/predict", b"continued", "Expect: 100-continue"),
    get("/metrics", version="1.0"),
    get("/v2", method="HEAD"),
    chunked("/predict", b"some").replace(b"0\r\n\r\n", b"0\r\nContent-Encoding: br\r\nHost: there\r\n\r\n"),
    get("/v2", *(f"H{n}: {'x' * 300}" for n in range(80))),  # much, and yet not too much
]
HOSTILE = [
    b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    post("/predict", b"body", "Connection: Upgrade", "Upgrade: websocket"),
    get("/v2", "Connection: Upgrade", "Upgrade: h2c, websocket"),
    get("/v2", "Host: there"),
    get("/v2", *["a:b"] * 120),
    get("/v2", "A: " + "a" * 40_000),
    chunked("/predict", b"some").replace(b"0\r\n\r\n", b"0\r\n" + b"a:b\r\n" * 120 + b"\r\n"),
    chunked("/predict", b"some").replace(b"chunked", b"gzip, chunked"),
]
Seen = list[tuple[Any, ...]]


class Collector:
    def __init__(self) -> None:
        self.seen: Seen = []

    def moved_on(self) -> None: ...
    def head(self, method: bytes, url: bytes, headers: dict[bytes, bytes], *, has_body: bool) -> None: ...
    def reserve(self, size: int) -> None: ...
    def continue_expected(self) -> None: ...

    def complete(self, request: Request) -> None:
        body = request.body(limit=1 << 20)
        self.seen.append((request.method, request.path, request.query, body, request.keep_alive, request.modern))


def parsed(pieces: list[bytes]) -> tuple[Seen, tuple[str, int] | None]:
    """Requests, and why it stopped if it did."""
    collector = Collector()
    incoming = RequestParser(collector, body_limit=1000)
    try:
        for piece in pieces:
            incoming.feed(piece)
    except RequestError as error:
        return collector.seen, (error.reason, error.status)
    return collector.seen, None


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in pairwise(bounds) if end > start]


@settings(max_examples=300, deadline=None)
@given(
    order=st.lists(st.sampled_from(WHOLE), min_size=1, max_size=6),
    places=st.lists(st.integers(0, 5000), max_size=20),
)
@example(order=WHOLE, places=list(range(5000)))
def test_pieces_make_no_difference(order: list[bytes], places: list[int]) -> None:
    data = b"".join(order)
    whole = parsed([data])
    assert parsed(cut(data, places)) == whole
    if all(b"HTTP/1.0" not in one for one in order[:-1]):  # after one of those, nothing is expected
        assert whole[1] is None
        assert len(whole[0]) == len(order)


@settings(max_examples=500, deadline=None)
@given(
    order=st.lists(st.sampled_from(WHOLE + HOSTILE), min_size=1, max_size=3),
    changes=st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=3)), min_size=1, max_size=4),
    places=st.lists(st.integers(0, 5000), max_size=5),
)
def test_damage_is_refused_or_harmless_and_never_a_crash(
    order: list[bytes], changes: list[tuple[int, bytes]], places: list[int]
) -> None:
    data = bytearray(b"".join(order))
    for place, new in changes:
        start = place % len(data)
        data[start : start + len(new)] = new
    seen, refusal = parsed([bytes(data)])
    again = parsed(cut(bytes(data), places))
    assert again == (seen, refusal)
    if refusal is not None:
        assert 400 <= refusal[1] < 600


@settings(max_examples=100, deadline=None)
@given(hostile=st.sampled_from(HOSTILE), places=st.lists(st.integers(0, 50_000), max_size=20))
def test_what_is_refused_whole_is_refused_in_pieces(hostile: bytes, places: list[int]) -> None:
    seen, refusal = parsed([hostile])
    assert seen == []
    assert refusal is not None
    assert parsed(cut(hostile, places)) == (seen, refusal)


def test_trailers_are_no_headers() -> None:
    request = chunked("/predict", b"some").replace(b"0\r\n\r\n", b"0\r\nAuthorization: Bearer x\r\n\r\n")
    headers: list[dict[bytes, bytes]] = []

    class Looking(Collector):
        def complete(self, request: Request) -> None:
            headers.append(request.headers)

    RequestParser(Looking(), body_limit=1000).feed(request)
    assert [set(found) for found in headers] == [{b"host", b"transfer-encoding"}]


def test_a_head_is_offered_to_a_parser_twice_at_most() -> None:
    """Once as it came, once without what it offers; then its body is read."""
    heads: list[bytes] = []

    class Counting(Collector):
        def head(self, method: bytes, url: bytes, headers: dict[bytes, bytes], *, has_body: bool) -> None:
            heads.append(method)

    incoming = RequestParser(Counting(), body_limit=1000)
    incoming.feed(post("/predict", b"body", "Connection: Upgrade", "Upgrade: h2c") * 3)
    assert len(heads) == 6
