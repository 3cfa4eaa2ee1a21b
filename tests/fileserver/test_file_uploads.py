"""Writing to the file server: only with the token, never half, never too much."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from clickline.fileserver.file_server import FileServer
from clickline.fileserver.served_directory import ServedDirectory
from clickline.fileserver.uploads import Upload
from support.eventually import eventually

Authorised = dict[str, str]


def connect(server: FileServer, text: str) -> socket.socket:
    host = urlsplit(server.address)
    connection = socket.create_connection((host.hostname, host.port), timeout=20)
    connection.sendall(text.encode())
    return connection


def put(path: str, length: int, authorised: Authorised) -> str:
    token = authorised["Authorization"]
    return f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nAuthorization: {token}\r\n\r\n"


def under_way(root: Path) -> list[Path]:
    return list(root.rglob(".upload-*"))


def test_a_file_is_stored_with_its_directories(client: httpx.Client, root: Path, authorised: Authorised) -> None:
    content = os.urandom(3 << 20)
    answer = client.put("/new/place/model.tar", content=content, headers=authorised)
    assert answer.status_code == 201
    assert answer.json()["sha256"] == hashlib.sha256(content).hexdigest()
    assert (root / "new/place/model.tar").read_bytes() == content
    assert client.head("/new/place/model.tar").headers["etag"] == answer.headers["etag"]
    again = client.put("/new/place/model.tar", content=b"other", headers=authorised)
    assert (again.status_code, client.get("/new/place/model.tar").content) == (200, b"other")
    assert under_way(root) == []


def test_without_the_token_nothing_is_stored(client: httpx.Client, root: Path) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer"},
    ):
        answer = client.put("/slot.conf", content=b"x" * 100_000, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert (root / "slot.conf").read_text() == "slots: 26\n"


def test_a_server_without_a_token_takes_nothing(root: Path, authorised: Authorised) -> None:
    with FileServer(root) as server:
        assert httpx.put(server.address + "/x", content=b"x", headers=authorised).status_code == 403


def test_a_wrong_checksum_leaves_what_was_there(client: httpx.Client, root: Path, authorised: Authorised) -> None:
    right = hashlib.sha256(b"new").hexdigest()
    answer = client.put("/slot.conf", content=b"New", headers={**authorised, "X-Checksum-SHA256": right})
    assert answer.status_code == 400
    assert (root / "slot.conf").read_text() == "slots: 26\n"
    answer = client.put("/slot.conf", content=b"new", headers={**authorised, "X-Checksum-SHA256": right.upper()})
    assert answer.status_code == 200
    assert under_way(root) == []


def test_what_is_too_large_is_refused_before_and_while_it_comes(
    client: httpx.Client, root: Path, authorised: Authorised
) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(5 << 4):
            yield b"x" * (1 << 16)

    assert client.put("/large", content=b"x" * ((4 << 20) + 1), headers=authorised).status_code == 413
    with suppress(httpx.WriteError):  # the server may have answered and closed while we still sent
        assert client.put("/large", content=endless(), headers=authorised).status_code == 413
    assert client.put("/fits", content=b"x" * (4 << 20), headers=authorised).status_code == 201
    assert not (root / "large").exists()
    eventually(lambda: under_way(root) == [])


def test_a_connection_that_ends_leaves_nothing(server: FileServer, root: Path, authorised: Authorised) -> None:
    with connect(server, put("/half", 1000, authorised) + "not all of it"):
        eventually(lambda: under_way(root))
    eventually(lambda: under_way(root) == [])
    assert not (root / "half").exists()


def test_who_says_nothing_for_long_is_not_waited_for(server: FileServer, root: Path, authorised: Authorised) -> None:
    with connect(server, put("/slow", 1000, authorised) + "begun") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 408")
    assert under_way(root) == []


def test_only_so_many_at_once(root: Path, authorised: Authorised) -> None:
    token = authorised["Authorization"].removeprefix("Bearer ").encode()
    with FileServer(root, token=token, most_uploads=2) as server:
        first, second = (connect(server, put(f"/{name}", 4, authorised) + "ab") for name in "12")
        with first, second:
            eventually(lambda: len(under_way(root)) == 2)
            refused = httpx.put(server.address + "/3", content=b"abcd", headers=authorised)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            first.sendall(b"cd")
            assert first.recv(100).startswith(b"HTTP/1.1 201")
            assert httpx.put(server.address + "/3", content=b"abcd", headers=authorised).status_code == 201
    assert (root / "1").read_bytes() == b"abcd"
    assert under_way(root) == []


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 400), ("/data/", 400), ("/data", 409), ("/slot.conf/x", 409), ("/.hidden", 400), ("/a/.upload-1", 400),
     ("/%2e%2e/x", 400), ("/a//b", 400), ("/a%00b", 400), ("/link/x", 409), ("/" + "n" * 256, 400)],
)  # fmt: skip
def test_places_where_no_file_can_be(
    client: httpx.Client, root: Path, authorised: Authorised, path: str, status: int
) -> None:
    (root / "link").symlink_to(root.parent / "outside")
    before = sorted(root.parent.rglob("*"))
    assert client.put(path, content=b"x", headers=authorised).status_code == status
    assert [item for item in sorted(root.parent.rglob("*")) if item not in before] in ([], [root / "a"])


def test_what_a_dead_process_left_is_removed_at_the_next_start(root: Path, authorised: Authorised) -> None:
    (root / "data" / ".upload-0123").write_text("left over")
    alive = Upload(ServedDirectory(root), "x", limit=10)
    with FileServer(root, token=b"0123456789abcdef"):
        assert under_way(root) == [alive._temporary]
    alive.drop()
    assert under_way(root) == []


def test_uploads_under_way_are_neither_listed_nor_served(
    server: FileServer, client: httpx.Client, root: Path, authorised: Authorised
) -> None:
    with connect(server, put("/under-way", 1000, authorised) + "begun"):
        eventually(lambda: under_way(root))
        name = under_way(root)[0].name
        assert client.get("/" + name).status_code == 404
        assert all(not entry["name"].startswith(".") for entry in client.get("/?format=json").json()["entries"])
