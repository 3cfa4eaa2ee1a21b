"""A version in a store elsewhere comes to a machine once, whatever number of workers read it and whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from clickline.errors import VersionError
from clickline.versions import donefile, version_cache
from clickline.versions.chain import opened
from clickline.versions.donefile import DONEFILE
from clickline.versions.store import open_store
from clickline.versions.version_cache import DIRECTORY, VersionCache, cache_directory
from support.doubles.counting_file_server import CountingFiles
from support.eventually import eventually
from support.versions.model_versions import ModelVersions

WORKERS = 3


@pytest.fixture
def published(trained_model: Path, tmp_path: Path) -> ModelVersions:
    """A base and a delta."""
    versions = ModelVersions(tmp_path / "store", trained_model)
    versions.delta()
    return versions


@pytest.fixture
def files(published: ModelVersions) -> Iterator[CountingFiles]:
    with CountingFiles(Path(published._store.url)) as server:
        yield server
        server.let_go()


@pytest.fixture
def cache(files: CountingFiles, tmp_path: Path) -> VersionCache:
    return VersionCache(open_store(files.address), cache_directory_in(tmp_path))


def cache_directory_in(path: Path) -> Path:
    (path / "cache").mkdir(mode=0o700, exist_ok=True)
    return path / "cache"


def sizes(published: ModelVersions) -> dict[str, int]:
    """Of all files that a reader of the newest version needs."""
    root = Path(published._store.url)
    needed = [*root.glob("v*/manifest.json"), *root.glob("v*/*.dict")]
    last = root / donefile.directory_of(published.last)
    needed += [last / "network.onnx", last / "sample.safetensors"]
    return {str(path.relative_to(root)): path.stat().st_size for path in needed}


def sent(files: CountingFiles) -> dict[str, int]:
    return {name: size for name, size in files.sent.items() if name != DONEFILE}


def kept(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache").glob("*/v*"))


@contextmanager
def serving(
    files: CountingFiles, tmp_path: Path, *, workers: int = WORKERS
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`clickline serve` in a process group of its own, and its log."""
    log = tmp_path / f"serve-{os.urandom(4).hex()}.log"
    environment = {**os.environ, DIRECTORY: str(cache_directory_in(tmp_path)), "OMP_NUM_THREADS": "1"}
    arguments = ["serve", files.address, "--listen", "127.0.0.1:0", "--workers", str(workers), "--stall-after", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "clickline", *arguments],
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    try:
        yield process, log
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def loaded(log: Path, version: int) -> int:
    """Workers that have taken a version."""
    return log.read_text(encoding="utf-8").count(f"model ctr: version {version}")


@pytest.mark.heavy
def test_workers_fetch_each_file_of_a_version_once_and_old_versions_go(
    published: ModelVersions, files: CountingFiles, tmp_path: Path
) -> None:
    with serving(files, tmp_path) as (_, log):
        eventually(lambda: loaded(log, published.last) == WORKERS)
        assert sent(files) == sizes(published)
        before = published.last
        published.base()
        eventually(lambda: loaded(log, published.last) == WORKERS)
        folder = donefile.directory_of(published.last)
        assert {name: size for name, size in sent(files).items() if name.startswith(folder)} == {
            name: size for name, size in sizes(published).items() if name.startswith(folder)
        }
        eventually(lambda: kept(tmp_path) == [folder])
    assert before < published.last
    count = dict(files.sent)
    with serving(files, tmp_path) as (_, log):  # another start finds everything here
        eventually(lambda: loaded(log, published.last) == WORKERS)
    assert sent(files) == {name: size for name, size in count.items() if name != DONEFILE}


@pytest.mark.heavy
def test_processes_killed_in_the_middle_of_a_download_leave_what_the_next_start_goes_on_from(
    published: ModelVersions, files: CountingFiles, tmp_path: Path
) -> None:
    folder = donefile.directory_of(published.last)
    files.hold(f"{folder}/embedding.dict")
    with serving(files, tmp_path, workers=2) as (process, _):
        assert files.holding.wait(60)
        os.killpg(process.pid, signal.SIGKILL)
    files.let_go()
    assert list((tmp_path / "cache").glob("*/.part"))
    files.sent.clear()
    with serving(files, tmp_path, workers=2) as (_, log):
        eventually(lambda: loaded(log, published.last) == 2)
    assert sent(files)[f"{folder}/embedding.dict"] == sizes(published)[f"{folder}/embedding.dict"]
    assert f"{folder}/manifest.json" not in sent(files)  # it was here already
    assert not list((tmp_path / "cache").glob("*/.part"))


def test_a_damaged_copy_is_fetched_again(published: ModelVersions, files: CountingFiles, cache: VersionCache) -> None:
    store = open_store(files.address)
    with opened(store, published.last, cache=cache):
        pass
    copy = cache.directory / donefile.directory_of(published.last) / "embedding.dict"
    content = copy.read_bytes()
    copy.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    files.sent.clear()
    with opened(store, published.last, cache=cache):
        pass
    assert copy.read_bytes() == content
    assert list(sent(files)) == [f"{donefile.directory_of(published.last)}/embedding.dict"]


def test_many_that_open_a_version_at_once_share_one_download(
    published: ModelVersions, files: CountingFiles, cache: VersionCache
) -> None:
    barrier = threading.Barrier(4)

    def read(_: int) -> int:
        barrier.wait()
        with opened(open_store(files.address), published.last, cache=cache) as chain:
            return chain.manifest.version

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(read, range(4))) == {published.last}
    assert sent(files) == sizes(published)


def test_nothing_is_removed_while_somebody_opens_a_version(
    published: ModelVersions, files: CountingFiles, cache: VersionCache, tmp_path: Path
) -> None:
    store = open_store(files.address)
    with opened(store, 1, cache=cache) as first:
        published.base()
        with opened(store, published.last, cache=cache):
            pass
        assert donefile.directory_of(1) in kept(tmp_path)
        assert first.network()
    with opened(store, published.last, cache=cache):
        pass
    assert donefile.directory_of(1) not in kept(tmp_path)


def test_stores_that_nobody_opens_any_more_are_forgotten(
    published: ModelVersions, files: CountingFiles, cache: VersionCache, tmp_path: Path
) -> None:
    other = VersionCache(open_store(f"{files.address}/"), tmp_path / "cache")
    for each in (other, cache):
        with opened(open_store(files.address), 1, cache=each):
            pass
    (lock,) = [path for path in (tmp_path / "cache").glob("*.use") if path.stem == other.directory.name]
    long_ago = lock.stat().st_mtime - version_cache.FORGET_AFTER - 1
    os.utime(lock, (long_ago, long_ago))
    with opened(open_store(files.address), 1, cache=cache):
        pass
    assert not other.directory.exists()
    assert cache.directory.exists()


def test_a_cache_that_others_can_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    with pytest.raises(VersionError, match="others can write there; CLICKLINE_CACHE names another directory"):
        cache_directory()
