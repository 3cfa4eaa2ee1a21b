"""Connections to S3 that break in the middle: tried again, or an error that names the object and leaves nothing."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from clickline.data.sources.files import find
from clickline.errors import DataError, VersionError
from clickline.versions import donefile
from clickline.versions.file_copy import fetch_checked
from clickline.versions.store import Store, open_store
from support.doubles.s3_server import CuttingProxy, ObjectServer

FOREVER = 10_000
PART = 50 << 20
"""What s3fs uploads in one part."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that give up soon. Before `store`, which makes one."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 2)


@pytest.fixture
def store(proxy: CuttingProxy, bucket: str) -> Store:
    """Through the proxy."""
    return open_store(f"s3://{bucket}/versions")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def unfinished_uploads(s3: ObjectServer, bucket: str) -> list[str]:
    with s3.client() as client:
        return [each["Key"] for each in client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])]


def test_an_upload_that_is_cut_in_the_middle_is_sent_again(store: Store, proxy: CuttingProxy, tmp_path: Path) -> None:
    content = os.urandom(1 << 20)
    (tmp_path / "file").write_bytes(content)
    proxy.cut("request", "PUT", times=1, after=3)
    store.put(tmp_path / "file", "v1/file")
    assert proxy.cuts == 1
    assert b"".join(store.pieces("v1/file")) == content


@pytest.mark.heavy
def test_one_part_of_many_that_is_cut_is_sent_again(
    store: Store, proxy: CuttingProxy, s3: ObjectServer, bucket: str, tmp_path: Path
) -> None:
    content = os.urandom(1 << 20) * 101  # two parts and a bit
    (tmp_path / "file").write_bytes(content)
    proxy.cut("request", "PUT", times=2, after=200)
    store.put(tmp_path / "file", "v1/file")
    assert proxy.cuts == 2
    copy = fetch_checked(store, "v1/file", tmp_path / "copy", size=len(content), sha256=digest(content))
    assert copy.stat().st_size == len(content)
    assert unfinished_uploads(s3, bucket) == []


@pytest.mark.heavy
def test_parts_that_never_arrive_are_an_error_and_leave_nothing(
    impatient: None, store: Store, proxy: CuttingProxy, s3: ObjectServer, bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(bytes(2 * PART + 1))
    proxy.cut("request", "PUT", times=FOREVER, after=100)
    with pytest.raises(VersionError, match=rf"s3://{bucket}/versions/v1/file: \w*Connection\w*Error: "):
        store.put(tmp_path / "file", "v1/file")
    assert open_store(f"s3://{bucket}/versions").names() == []
    assert unfinished_uploads(s3, bucket) == []


def test_a_download_that_is_cut_in_the_middle_is_read_again(store: Store, proxy: CuttingProxy, tmp_path: Path) -> None:
    content = os.urandom(1 << 20)
    store.write("v1/file", content)
    proxy.cut("reply", "GET", times=2, after=3)
    path = fetch_checked(store, "v1/file", tmp_path / "file", size=len(content), sha256=digest(content))
    assert proxy.cuts == 2
    assert path.read_bytes() == content


def test_a_download_that_never_arrives_is_an_error_that_names_it(
    impatient: None, store: Store, proxy: CuttingProxy, bucket: str, tmp_path: Path
) -> None:
    content = os.urandom(1 << 20)
    store.write("v1/file", content)
    proxy.cut("reply", "GET", times=FOREVER, after=3)
    with pytest.raises(VersionError, match=rf"s3://{bucket}/versions/v1/file: "):
        fetch_checked(store, "v1/file", tmp_path / "file", size=len(content), sha256=digest(content))
    assert not (tmp_path / "file").exists()


def test_a_log_that_is_cut_in_the_middle_is_read_again(proxy: CuttingProxy, bucket: str, store: Store) -> None:
    content = os.urandom(1 << 20)
    store.write("log.tsv", content)
    (file,) = find([f"s3://{bucket}/versions/log.tsv"], options={})
    proxy.cut("reply", "GET", times=2, after=3)
    with file.open() as stream:
        assert stream.read() == content
    assert proxy.cuts == 2


def test_a_log_that_never_arrives_is_an_error_that_names_it(
    impatient: None, proxy: CuttingProxy, bucket: str, store: Store
) -> None:
    store.write("log.tsv", os.urandom(1 << 20))
    (file,) = find([f"s3://{bucket}/versions/log.tsv"], options={})
    proxy.cut("reply", "GET", times=FOREVER, after=3)
    with pytest.raises(DataError, match=rf"^s3://{bucket}/versions/log.tsv: [A-Z]\w+: "), file.open() as log:
        log.read()


def test_a_donefile_whose_answer_is_lost_has_its_line_once(store: Store, proxy: CuttingProxy) -> None:
    donefile.append_version(store, version=1, kind="base", parent=None, sha256="0" * 64)
    proxy.cut("reply", "PUT", times=3)  # those of lock and donefile
    donefile.append_version(store, version=2, kind="base", parent=None, sha256="0" * 64)
    assert proxy.cuts == 3
    assert list(donefile.read(store).entries) == [1, 2]
    assert store.names() == ["versions.jsonl"]
