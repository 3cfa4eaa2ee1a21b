"""Which files a path of the job stands for, and what the user is told when it stands for none."""

from __future__ import annotations

import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest
from fsspec.registry import _registry

from clickline.data.sources.files import File, find
from clickline.errors import DataError, JobError
from clickline.files.storage import Storage


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "day=2/part-0", "day=1/part-1", "day=1/part-0", "day=1/_SUCCESS", ".tmp/x", "c.log"):
        path = tmp_path / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "logs"


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    for name in ("/bucket/b.txt", "/bucket/a.txt", "/bucket/deep/c.txt", "/bucket/_SUCCESS"):
        system.pipe(name, name.encode())
    yield "memory://bucket"
    system.rm("/bucket", recursive=True)


def names(path: str | Path, root: Path | str) -> list[str]:
    return [file.path.removeprefix(str(root)).lstrip("/") for file in find([str(path)], options={})]


def test_plain_file(logs: Path) -> None:
    assert names(logs / "b.txt", logs) == ["b.txt"]


def test_relative_path_and_home(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(logs)
    monkeypatch.setenv("HOME", str(logs))
    assert names("a.txt", logs) == names("~/a.txt", logs) == names("a.*", logs) == ["a.txt"]


def test_glob_is_sorted(logs: Path) -> None:
    assert names(logs / "*.txt", logs) == ["a.txt", "b.txt"]


def test_directory_is_read_recursively_without_hidden_files(logs: Path) -> None:
    assert names(logs, logs) == ["a.txt", "b.txt", "c.log", "day=1/part-0", "day=1/part-1", "day=2/part-0"]


def test_glob_of_directories_means_their_files_once(logs: Path) -> None:
    assert names(logs / "day=*", logs) == ["day=1/part-0", "day=1/part-1", "day=2/part-0"]
    assert names(logs / "**", logs) == names(logs, logs)


def test_hidden_files_can_be_asked_for(logs: Path) -> None:
    assert names(logs / ".tmp" / "*", logs) == [".tmp/x"]
    assert names(logs / "day=1" / "_S*", logs) == ["day=1/_SUCCESS"]


def test_order_of_paths_is_kept(logs: Path) -> None:
    found = find([str(logs / "c.log"), str(logs / "a.txt"), str(logs / "c.log")], options={})
    assert [Path(file.path).name for file in found] == ["c.log", "a.txt", "c.log"]


def test_brackets_in_a_name_are_not_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").touch()
    assert names(tmp_path / "a[1].txt", tmp_path) == ["a[1].txt"]


def test_urls(memory: str, logs: Path) -> None:
    root = "memory:///bucket"
    assert names(f"{memory}/a.txt", root) == ["a.txt"]
    assert names(f"{memory}/*.txt", root) == ["a.txt", "b.txt"]
    assert names(memory, root) == ["a.txt", "b.txt", "deep/c.txt"]
    assert names(f"file://{logs}/*.txt", f"file://{logs}") == ["a.txt", "b.txt"]


def test_url_is_opened(memory: str) -> None:
    (file,) = find([f"{memory}/a.txt"], options={})
    with file.open() as stream:
        assert stream.read() == b"/bucket/a.txt"


def test_missing_file_names_what_is_there(logs: Path) -> None:
    with pytest.raises(DataError, match=r"no such file or directory: '.*z\.txt'.*has: a\.txt, b\.txt, c\.log"):
        find([str(logs / "z.txt")], options={})
    with pytest.raises(DataError, match=r"does not exist either"):
        find([str(logs / "no" / "z.txt")], options={})


def test_missing_url(memory: str) -> None:
    with pytest.raises(DataError, match=r"no such file or directory: 'memory://bucket/zz'"):
        find([f"{memory}/zz"], options={})


def test_pattern_without_match(logs: Path) -> None:
    with pytest.raises(DataError, match=r"no file matches '.*\*\.gz'"):
        find([str(logs / "*.gz")], options={})


def test_empty_directory(tmp_path: Path) -> None:
    (tmp_path / ".hidden").touch()
    with pytest.raises(DataError, match=r"no files in the directory"):
        find([str(tmp_path)], options={})


def test_file_that_vanishes_before_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    (file,) = find([str(path)], options={})
    path.unlink()
    with pytest.raises(DataError, match=r"^/.*/a: not there$"), file.open():
        pass


class Failing:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def open(self, name: str, mode: str) -> None:
        raise self.error


def test_unreadable_file() -> None:
    file = File(path="/logs/a", storage=Storage(Failing(PermissionError(13, "no")), DataError), name="/logs/a")
    with pytest.raises(DataError, match=r"^/logs/a: no permission; check its owner and mode"), file.open():
        pass


def test_secrets_do_not_show_in_errors() -> None:
    storage = Storage(Failing(OSError("bad key hunter2")), DataError, secrets=("hunter2",))
    file = File(path="s3://b/a", storage=storage, name="b/a")
    with pytest.raises(DataError, match=r"^s3://b/a: OSError: bad key \*\*\*$"), file.open():
        pass


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [("s3://b/a", "s3fs", "s3"), ("webhdfs://b/a", "requests", "hdfs")],
)
def test_missing_extra_says_what_to_install(
    url: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in [name for name in sys.modules if name.startswith("fsspec.implementations.webhdfs")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.delitem(_registry, url.partition(":")[0], raising=False)  # made by other tests
    monkeypatch.setitem(sys.modules, package, None)  # importing it fails, be it installed or not
    with pytest.raises(DataError, match=rf"reading '{url}' needs .*pip install 'clickline\[{extra}\]'"):
        find([url], options={})


def test_http(logs: Path) -> None:
    handler = partial(QuietHandler, directory=str(logs))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            root = f"http://127.0.0.1:{server.server_port}"
            (file,) = find([f"{root}/a.txt"], options={})
            with file.open() as stream:
                assert stream.read() == b"a.txt"
            assert names(f"{root}/*.txt", root) == ["a.txt", "b.txt"]
            assert names(f"{root}/day=1/", root) == ["day=1/part-0", "day=1/part-1"]
            with pytest.raises(DataError, match=r"no such file or directory: 'http://.*/zz'"):
                find([f"{root}/zz"], options={})
        finally:
            server.shutdown()
            thread.join()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


def test_unknown_protocol() -> None:
    with pytest.raises(DataError, match=r"^gopher://a: .*; known protocols: .*memory"):
        find(["gopher://a"], options={})


def test_storage_options_are_resolved_at_use(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLICKLINE_TEST_KEY", raising=False)
    with pytest.raises(JobError, match="CLICKLINE_TEST_KEY"):
        find([f"{memory}/a.txt"], options={"key": "${env:CLICKLINE_TEST_KEY}"})
    monkeypatch.setenv("CLICKLINE_TEST_KEY", "hunter2")
    (file,) = find([f"{memory}/a.txt"], options={"key": "${env:CLICKLINE_TEST_KEY}", "plain": "x"})
    assert file.storage.secrets == ("hunter2",)
    assert file.storage.system.storage_options["key"] == "hunter2"
    assert "hunter2" not in repr(file)


def test_options_are_not_for_local_files(logs: Path) -> None:
    assert find([str(logs / "a.txt")], options={"key": "${env:CLICKLINE_TEST_UNSET}"})
