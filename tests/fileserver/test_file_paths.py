"""No path leaves the root, whatever it looks like; no request, however malformed, does more than get an answer."""

from __future__ import annotations

import os
import random
import socket
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickline.fileserver.file_server import FileServer
from clickline.fileserver.ranges import NoSuchRange, range_applies, unchanged, wanted
from clickline.fileserver.served_directory import NotServed, ServedDirectory
from support.fuzz.budget import budgeted, examples


def asked(server: FileServer, request: bytes, *, and_no_more: bool = False) -> bytes:
    """The answer to raw bytes; `and_no_more` ends our side of the connection behind them."""
    host = urlsplit(server.address)
    with socket.create_connection((host.hostname, host.port), timeout=20) as connection:
        answer = b""
        with suppress(ConnectionError):
            connection.sendall(request)
            if and_no_more:
                connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(1 << 16):
                answer += data
        return answer


@pytest.mark.parametrize(
    "path",
    [
        "/../outside/secret.txt",
        "/data/../../outside/secret.txt",
        "/%2e%2e/outside/secret.txt",
        "/%2E%2E%2Foutside%2Fsecret.txt",
        "/..%2foutside/secret.txt",
        "/%252e%252e/outside/secret.txt",
        "/..\\outside\\secret.txt",
        "//etc/passwd",
        "/%2Fetc/passwd",
        "///etc/passwd",
        "/data//20261116/feature",
        "/./slot.conf",
        "/slot.conf%00.txt",
        "/slot.conf/",
        "/link/secret.txt",
        "/file-link",
        "/circle",
        "/pipe",
        "/.upload-0123",
        "/.hidden/file",
        "/%ff%fe",
        "/" + "a" * 3000,
        "/" + "a/" * 2000,
    ],
)
def test_what_must_not_be_read_is_not_there(server: FileServer, root: Path, path: str) -> None:
    (root / "link").symlink_to(root.parent / "outside")
    (root / "file-link").symlink_to(root.parent / "outside" / "secret.txt")
    (root / "circle").symlink_to("circle")
    os.mkfifo(root / "pipe")
    (root / ".upload-0123").write_text("secret")
    (root / ".hidden").mkdir()
    (root / ".hidden" / "file").write_text("secret")
    answer = asked(server, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert answer.split()[1] == b"404", answer
    assert b"secret" not in answer
    assert b"root:" not in answer


def test_links_within_are_followed_and_listed_and_others_are_not(client: httpx.Client, root: Path) -> None:
    (root / "latest").symlink_to("data/20261116")
    (root / "away").symlink_to(root.parent / "outside")
    (root / "nowhere").symlink_to("nothing")
    assert client.get("/latest/feature").status_code == 200
    names = [entry["name"] for entry in client.get("/?format=json").json()["entries"]]
    assert names == ["data", "latest", "slot.conf"]


def test_long_urls_and_headers_are_refused(server: FileServer) -> None:
    assert asked(server, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n").split()[1] == b"414"
    for size in (40_000, 1_000_000):
        answer = asked(server, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * size + b"\r\n\r\n")
        assert answer == b"" or answer.split()[1] in (b"400", b"431")  # or closed while we still sent
    assert httpx.get(server.address + "/health").status_code == 200


def test_garbled_requests_get_an_answer_or_a_closed_connection(server: FileServer) -> None:
    chance = random.Random(7)
    good = b"GET /slot.conf HTTP/1.1\r\nHost: x\r\nRange: bytes=0-3\r\nConnection: close\r\n\r\n"
    for _ in range(examples(60)):
        bad = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        answer = asked(server, bytes(bad[: chance.randrange(1, len(bad) + 1)]), and_no_more=True)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
        assert not answer.startswith(b"HTTP/1.1 5")
    assert httpx.get(server.address + "/health").status_code == 200


@budgeted(default=300)
@given(st.text(st.sampled_from("./\\%a\0é\ud800"), max_size=12) | st.text(max_size=300))
def test_any_path_stays_below_the_root(path: str) -> None:
    root = ServedDirectory(Path(__file__).parent)
    try:
        file = root.open(path)
    except NotServed:
        return
    if file is not None:
        file.close()
        assert file.path.is_relative_to(root.path)


@budgeted(default=300)
@given(
    st.text(st.sampled_from("bytes=-,0123456789 "), max_size=40).map(lambda text: "bytes=" + text) | st.text(),
    st.integers(0, 100),
)
def test_any_range_is_within_the_file(header: str, size: int) -> None:
    try:
        ranges = wanted(header, size)
    except NoSuchRange:
        return
    if ranges is not None:
        assert ranges
        assert all(0 <= begin < end <= size for begin, end in ranges)
        assert sum(end - begin for begin, end in ranges) <= size


@budgeted(default=300)
@given(st.text() | st.dates().map(str), st.text())
def test_any_condition_is_understood_or_not(one: str, other: str) -> None:
    unchanged('"tag"', 10**18, if_none_match=None, if_modified_since=one)
    unchanged('"tag"', 10**18, if_none_match=other, if_modified_since=one)
    range_applies('"tag"', 10**18, if_range=one)
