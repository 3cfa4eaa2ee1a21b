"""Reading from the file server: whole files, ranges, conditions, checksums, listings."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import socket
import time
from email.parser import BytesParser
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.routing import Mount

from clickline.errors import DataError, JobError, PeerError
from clickline.fileserver.file_server import FileServer

FEATURE = bytes(range(256)) * 16
PATH = "/data/20261116/feature"


def test_a_file_comes_whole_with_what_describes_it(client: httpx.Client) -> None:
    answer = client.get(PATH)
    assert (answer.status_code, answer.content) == (200, FEATURE)
    assert answer.headers["x-checksum-sha256"] == hashlib.sha256(FEATURE).hexdigest()
    assert answer.headers["accept-ranges"] == "bytes"
    assert re.fullmatch(r'"[0-9a-f-]+"', answer.headers["etag"])
    assert "last-modified" in answer.headers


def test_head_says_the_same_without_the_bytes(client: httpx.Client) -> None:
    get, head = client.get(PATH), client.head(PATH)
    assert head.content == b""
    same = ("content-length", "etag", "x-checksum-sha256", "content-type", "last-modified")
    assert {name: head.headers[name] for name in same} == {name: get.headers[name] for name in same}


@pytest.mark.parametrize(
    ("asked", "begin", "end"),
    [("bytes=0-0", 0, 1), ("bytes=10-19", 10, 20), ("bytes=4000-", 4000, 4096), ("bytes=-6", 4090, 4096),
     ("bytes=4090-9999999", 4090, 4096), ("Bytes = 5-6", 5, 7), ("bytes=-99999", 0, 4096)],
)  # fmt: skip
def test_one_range(client: httpx.Client, asked: str, begin: int, end: int) -> None:
    answer = client.get(PATH, headers={"Range": asked})
    assert (answer.status_code, answer.content) == (206, FEATURE[begin:end])
    assert answer.headers["content-range"] == f"bytes {begin}-{end - 1}/4096"


def test_several_ranges_come_as_parts(client: httpx.Client) -> None:
    answer = client.get(PATH, headers={"Range": "bytes=100-109, 0-4, -3"})
    assert answer.status_code == 206
    head = b"Content-Type: " + answer.headers["content-type"].encode() + b"\r\n\r\n"
    parts = BytesParser().parsebytes(head + answer.content).get_payload()
    assert [part["Content-Range"] for part in parts] == ["bytes 100-109/4096", "bytes 0-4/4096", "bytes 4093-4095/4096"]
    found = [part.get_payload(decode=True) for part in parts]
    assert found == [FEATURE[100:110], FEATURE[0:5], FEATURE[-3:]]
    assert int(answer.headers["content-length"]) == len(answer.content)


@pytest.mark.parametrize(
    "asked", ["bytes=4096-", "bytes=-0", "bytes=0-10,5-20", "bytes=" + ",".join(f"{i}-{i}" for i in range(0, 40, 2))]
)
def test_ranges_that_cannot_be_had_are_refused(client: httpx.Client, asked: str) -> None:
    answer = client.get(PATH, headers={"Range": asked})
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */4096")


@pytest.mark.parametrize(
    "asked", ["lines=0-1", "bytes=a-b", "bytes=5-2", "bytes=", "bytes=-", "bytes=1" + "0" * 40 + "-"]
)
def test_what_is_no_range_is_ignored(client: httpx.Client, asked: str) -> None:
    assert client.get(PATH, headers={"Range": asked}).content == FEATURE


def test_nobody_gets_again_what_they_have(client: httpx.Client, root: Path) -> None:
    first = client.get(PATH)
    tag, date = first.headers["etag"], first.headers["last-modified"]
    for headers in ({"If-None-Match": tag}, {"If-None-Match": f'"x", W/{tag}'}, {"If-Modified-Since": date}):
        answer = client.get(PATH, headers=headers)
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
    fresh = root / "data" / "20261116" / "fresh"
    fresh.write_bytes(FEATURE)
    fresh.replace(root / "data" / "20261116" / "feature")  # the same bytes, yet another file
    assert client.get(PATH, headers={"If-None-Match": tag}).status_code == 200


def test_a_download_goes_on_only_if_the_file_is_the_same(client: httpx.Client) -> None:
    first = client.get(PATH)
    for same in (first.headers["etag"], first.headers["last-modified"]):
        assert client.get(PATH, headers={"Range": "bytes=8-9", "If-Range": same}).content == FEATURE[8:10]
    for other in ('"other"', f"W/{first.headers['etag']}", "Thu, 01 Jan 1970 00:00:00 GMT", "nonsense"):
        assert client.get(PATH, headers={"Range": "bytes=8-9", "If-Range": other}).content == FEATURE


def test_a_large_file_does_not_wait_for_its_checksum(root: Path) -> None:
    content = os.urandom(12 << 20)
    (root / "large").write_bytes(content)
    with FileServer(root, checksum_wait=0.0) as server, httpx.Client(base_url=server.address) as client:
        answer = client.get("/large")
        assert answer.content == content
        # Who asks for the headers alone waits for it, and then it is known.
        assert client.head("/large").headers["x-checksum-sha256"] == hashlib.sha256(content).hexdigest()
        ranged = client.get("/large", headers={"Range": "bytes=1048570-9999999"})
        assert ranged.content == content[1048570:10000000]
        assert ranged.headers["x-checksum-sha256"] == hashlib.sha256(content).hexdigest()
        assert sample(client, "clickline_files_digests") == 1


def test_a_checksum_under_way_is_shared_and_does_not_hold_up_the_end(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)  # hours of hashing
    begun = time.monotonic()
    with FileServer(root, checksum_wait=0.0) as server, httpx.Client(base_url=server.address) as client:
        for _ in range(3):
            answer = client.get("/huge", headers={"Range": "bytes=0-9"})
            assert (answer.content, answer.headers.get("x-checksum-sha256")) == (bytes(10), None)
        assert len(server._digests._pending) == 1
    assert time.monotonic() - begun < 20
    assert not still_open(root / "huge")


def test_a_known_checksum_need_not_be_computed(root: Path) -> None:
    with FileServer(root) as server, httpx.Client(base_url=server.address) as client:
        server.remember("slot.conf", "ab" * 32)
        assert client.get("/slot.conf").headers["x-checksum-sha256"] == "ab" * 32
        assert sample(client, "clickline_files_digests") == 0


def test_an_empty_file_is_a_file(client: httpx.Client, root: Path) -> None:
    (root / "empty").touch()
    answer = client.get("/empty")
    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "0")
    assert client.get("/empty", headers={"Range": "bytes=0-"}).status_code == 416


def test_listings_for_programs_and_for_people(client: httpx.Client, root: Path) -> None:
    odd = 'a <b>&"#?%20.txt'
    (root / odd).write_text("odd")
    (root / ".hidden").write_text("hidden")
    asked = client.get("/?format=json").json()
    assert client.get("/", headers={"Accept": "application/json"}).json() == asked
    assert [(entry["name"], entry["type"], entry.get("bytes")) for entry in asked["entries"]] == [
        ("data", "directory", None),
        (odd, "file", 3),
        ("slot.conf", "file", 10),
    ]
    page = client.get("/").text
    assert "<b>" not in page
    assert ".hidden" not in page
    links = re.findall(r'href="([^"]+)"', page)
    assert [client.get(link, follow_redirects=True).status_code for link in links] == [200, 200, 200]
    assert client.get(links[1]).text == "odd"


def test_a_directory_without_its_slash_leads_to_the_one_with(client: httpx.Client) -> None:
    answer = client.get("/data", follow_redirects=True)
    assert answer.url.path == "/data/"
    assert '"./20261116/"' in answer.text
    assert '"../"' in answer.text


def test_it_says_that_it_is_well_and_counts(client: httpx.Client) -> None:
    client.get(PATH)
    client.get("/nothing")
    assert client.get("/health").json() == {"status": "ok"}
    assert sample(client, "clickline_files_requests_total", method="GET", status="404") == 1
    assert sample(client, "clickline_files_bytes_sent_total") >= len(FEATURE)


def test_other_methods_are_refused(client: httpx.Client) -> None:
    for method in ("POST", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, PATH).status_code == 405


def test_it_can_be_mounted_in_another_application(root: Path) -> None:
    server = FileServer(root)

    async def ask() -> None:
        app = httpx.ASGITransport(Starlette(routes=[Mount("/files", app=server)]))
        async with httpx.AsyncClient(transport=app, base_url="http://test", follow_redirects=True) as client:
            assert (await client.get("/files" + PATH)).content == FEATURE
            assert '"./20261116/"' in (await client.get("/files/data")).text  # by way of the slash
            assert (await client.get("/files/%2e%2e/outside/secret.txt")).status_code == 404

    asyncio.run(ask())
    server.close()


def test_who_leaves_in_the_middle_frees_the_file(root: Path, server: FileServer) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 30)
    server.remember("huge", "00" * 32)  # else it is open until that is computed
    host = urlsplit(server.address)
    with socket.create_connection((host.hostname, host.port), timeout=10) as connection:
        connection.sendall(b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert still_open(root / "huge")
    deadline = time.monotonic() + 20
    while still_open(root / "huge"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_where_it_cannot_listen_or_serve_is_said_at_once(root: Path, server: FileServer) -> None:
    with pytest.raises(PeerError, match="cannot listen on"):
        FileServer(root, listen=server.address.removeprefix("http://")).bind()
    with pytest.raises(DataError, match="no directory"):
        FileServer(root / "nothing")
    for listen in ("8080", "host:http", "host:99999"):
        with pytest.raises(JobError, match="HOST:PORT"):
            FileServer(root, listen=listen)
    with pytest.raises(JobError, match="fewer than 16"):
        FileServer(root, token=b"short")


def still_open(path: Path) -> bool:
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            if descriptor.readlink() == path:
                return True
        except OSError:
            continue
    return False


def sample(client: httpx.Client, name: str, **labels: str) -> float:
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for found in family.samples:
            if found.name == name and labels.items() <= found.labels.items():
                return found.value
    raise AssertionError(name)
