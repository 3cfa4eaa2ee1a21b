"""A download goes on where it broke off, is believed only with the right hash, and costs no more than it may."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from clickline.cube.agent.download import DownloadLimits, ExpectedHashes, FileHashes, download, web_client
from clickline.errors import PeerError, VersionError
from clickline.fileserver.file_server import FileServer

CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.tar").write_bytes(CONTENT)
    with FileServer(tmp_path / "files") as server:
        yield f"{server.address}/a.tar"


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with web_client() as found:
        yield found


SHA = ExpectedHashes(sha256=hashlib.sha256(CONTENT).hexdigest())


def test_all_of_it(url: str, client: httpx.Client, tmp_path: Path) -> None:
    md5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    hashes = download(client, url, tmp_path / "a.part", expected=ExpectedHashes(sha256=SHA.sha256, md5=md5))
    assert hashes == FileHashes(bytes=len(CONTENT), sha256=SHA.sha256, md5=md5)
    assert (tmp_path / "a.part").read_bytes() == CONTENT


@pytest.mark.parametrize("have", [1, 300_000, len(CONTENT)])
def test_only_what_is_missing_is_asked_for(url: str, client: httpx.Client, tmp_path: Path, have: int) -> None:
    (tmp_path / "a.part").write_bytes(CONTENT[:have])
    (tmp_path / "a.part.of").write_text(f"{SHA.sha256} ")
    asked = []
    client.event_hooks["request"].append(lambda request: asked.append(request.headers.get("range")))
    download(client, url, tmp_path / "a.part", expected=SHA)
    assert asked == [f"bytes={have}-"]
    assert (tmp_path / "a.part").read_bytes() == CONTENT


def test_a_part_of_another_file_is_thrown_away(url: str, client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(b"something else")
    (tmp_path / "a.part.of").write_text("of another ")
    download(client, url, tmp_path / "a.part", expected=SHA)
    assert (tmp_path / "a.part").read_bytes() == CONTENT


@pytest.mark.parametrize("expected", [ExpectedHashes(sha256="0" * 64), ExpectedHashes(sha256=SHA.sha256, md5="0" * 32)])
def test_a_wrong_hash_leaves_nothing(url: str, client: httpx.Client, tmp_path: Path, expected: ExpectedHashes) -> None:
    with pytest.raises(VersionError, match="damaged"):
        download(client, url, tmp_path / "a.part", expected=expected)
    assert not (tmp_path / "a.part").exists()


def test_damaged_bytes_that_were_there_are_found_out(url: str, client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(b"?" * 1000)
    (tmp_path / "a.part.of").write_text(f"{SHA.sha256} ")
    with pytest.raises(VersionError, match="damaged"):
        download(client, url, tmp_path / "a.part", expected=SHA)
    download(client, url, tmp_path / "a.part", expected=SHA)


def test_without_a_hash_nothing_is_taken(url: str, client: httpx.Client, tmp_path: Path) -> None:
    with pytest.raises(VersionError, match="cannot be checked"):
        download(client, url, tmp_path / "a.part", expected=ExpectedHashes())


def test_too_large_is_refused_at_once(url: str, client: httpx.Client, tmp_path: Path) -> None:
    with pytest.raises(VersionError, match=f"has {len(CONTENT)} bytes; at most 1000"):
        download(client, url, tmp_path / "a.part", expected=SHA, limits=DownloadLimits(largest=1000))
    assert not (tmp_path / "a.part").exists()


def test_no_room_is_refused_at_once(
    url: str, client: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 1 << 20

    monkeypatch.setattr("clickline.cube.agent.download.shutil.disk_usage", lambda _: Usage)
    with pytest.raises(VersionError, match="has room for 0"):
        download(client, url, tmp_path / "a.part", expected=SHA)


def test_not_there(url: str, client: httpx.Client, tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="HTTP 404"):
        download(client, f"{url}x", tmp_path / "a.part", expected=SHA)


def test_the_rate_is_kept(url: str, client: httpx.Client, tmp_path: Path) -> None:
    began = time.monotonic()
    download(client, url, tmp_path / "a.part", expected=SHA, limits=DownloadLimits(rate=3e6))
    assert time.monotonic() - began > 0.9 * (len(CONTENT) / 3e6 - 0.25)


def test_too_slow_breaks_off_and_goes_on_next_time(url: str, client: httpx.Client, tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="it is resumed next time"):
        download(client, url, tmp_path / "a.part", expected=SHA, limits=DownloadLimits(rate=4e6, seconds=0.05))
    assert 0 < (tmp_path / "a.part").stat().st_size < len(CONTENT)
    download(client, url, tmp_path / "a.part", expected=SHA)
