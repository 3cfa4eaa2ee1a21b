"""HDFS by its HTTP interface: logs in, versions out and in, and what is said when it refuses."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from clickline.config import Job
from clickline.data.sources.files import find
from clickline.errors import DataError, VersionError
from clickline.publish.publisher import Settings, publish
from clickline.serve.predictor.served_model import ServedModel
from clickline.train.session import train_job
from clickline.versions import donefile
from clickline.versions.maintenance import keep, list_versions, verify
from clickline.versions.store import open_store
from support.doubles.webhdfs_server import WebHdfsServer
from support.processes import small_settings


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[WebHdfsServer]:
    server = WebHdfsServer(tmp_path / "hdfs")
    yield server
    with suppress(OSError):  # a test may have
        server.close()


@pytest.mark.heavy
def test_a_job_gives_the_same_figures_from_a_directory_and_from_hdfs(
    hdfs: WebHdfsServer, criteo: dict[str, str], tmp_path: Path
) -> None:
    logs = hdfs.root / "logs" / "20261117"
    logs.mkdir(parents=True)
    lines = Path(criteo["train"]).read_bytes().splitlines(keepends=True)
    (logs / "part-0").write_bytes(b"".join(lines[:3000]))
    (logs / "part-1.gz").write_bytes(gzip.compress(b"".join(lines[3000:])))
    (logs / "test").write_bytes(Path(criteo["test"]).read_bytes())
    figures = []
    for root in (hdfs.root, hdfs.url):
        settings = small_settings(criteo, tmp_path / f"of-{len(figures)}")
        place = f"{root}/logs/20261117"
        settings["data"] = {"train": [f"{place}/part-*"], "test": [f"{place}/test"], "shuffle_rows": 1000}
        if root == hdfs.url:
            settings["data"]["storage"] = {"user": "clicks"}
        figures.append(train_job(Job.model_validate(settings)).test["auc"])
    assert figures[0] == figures[1]
    assert "clicks" in hdfs.users
    assert hdfs.operations["OPEN"] > 0


@pytest.mark.heavy
def test_versions_are_published_to_hdfs_verified_and_served(hdfs: WebHdfsServer, trained_model: Path) -> None:
    store = open_store(f"{hdfs.url}/models/ctr")
    publish(trained_model, store, Settings(kind="base", sample_rows=16))
    publish(trained_model, store, Settings(kind="delta", sample_rows=16))
    assert [one["kind"] for one in list_versions(store)] == ["base", "delta"]
    assert verify(store, 2) > 0
    assert store.names() == ["v0000000001", "v0000000002", "versions.jsonl"]
    served = ServedModel("ctr", store)
    assert served.refresh()
    assert served.status()["version"] == 2
    served.close()
    publish(trained_model, store, Settings(kind="base", sample_rows=16))
    assert keep(store, 1) == [1, 2]
    assert store.names() == ["v0000000003", "versions.jsonl"]


def test_a_name_node_that_refuses_is_an_error_with_its_words(hdfs: WebHdfsServer) -> None:
    store = open_store(f"{hdfs.url}/models")
    hdfs.safe_mode = True
    with pytest.raises(VersionError, match=rf"{hdfs.url}/models/.*: RuntimeError: Name node is in safe mode"):
        donefile.append_version(store, version=1, kind="base", parent=None, sha256="0" * 64)
    assert not list(hdfs.root.rglob("*.jsonl"))


def test_a_read_that_is_cut_in_the_middle_is_an_error_that_names_the_file(hdfs: WebHdfsServer) -> None:
    (hdfs.root / "log").write_bytes(bytes(100_000))
    (file,) = find([f"{hdfs.url}/log"], options={})
    hdfs.cut_reads = 1
    with pytest.raises(DataError, match=r"^webhdfs://.*/log: ChunkedEncodingError"), file.open() as log:
        log.read()


def test_a_file_that_is_not_there_is_named(hdfs: WebHdfsServer) -> None:
    with pytest.raises(DataError, match=rf"no such file or directory: '{hdfs.url}/none'"):
        find([f"{hdfs.url}/none"], options={})


def test_hdfs_without_hadoop_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.setenv(name, "/nowhere")
    with pytest.raises(VersionError, match=r"hdfs://host:9000/x: hdfs:// needs Java and .*; webhdfs:// needs neither"):
        open_store("hdfs://host:9000/x")
    with pytest.raises(DataError, match=r"^hdfs://host:9000/x: hdfs:// needs Java and"):
        find(["hdfs://host:9000/x"], options={})


@pytest.mark.parametrize("pattern", ["log", "logs/part-*"])
def test_a_name_node_that_does_not_answer_is_not_taken_for_an_empty_one(hdfs: WebHdfsServer, pattern: str) -> None:
    hdfs.close()
    with pytest.raises(DataError, match=rf"^{hdfs.url}/.*: ConnectionError"):
        find([f"{hdfs.url}/{pattern}"], options={})
