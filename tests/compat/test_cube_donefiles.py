"""base.txt and patch.txt: which product is next, what half-written and garbled lines do, where they are read from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickline.compat.cube.cube_donefiles import Product, append, choose, next_product, parse, read
from clickline.compat.cube.locations import fetch_directory, read_bytes
from clickline.errors import DataError, PeerError
from clickline.fileserver.file_server import FileServer
from support.doubles.ftp_double import ftp_server
from support.fuzz.budget import budgeted
from support.processes import run

SEED = '{"id":"1574152000","key":"1574152000","input":"/data/ctr_cube/20191119/base"}\n'


def base(number: int) -> Product:
    return Product("base", number, number, f"/b{number}")


def patch(number: int, key: int) -> Product:
    return Product("patch", number, key, f"/p{number}")


def test_a_line_of_cube_is_read() -> None:
    found = parse(SEED.encode(), "base", place="/done/base.txt")
    assert found == [Product("base", 1574152000, 1574152000, "/data/ctr_cube/20191119/base")]


def test_numbers_may_be_numbers_or_strings_and_other_fields_do_not_matter() -> None:
    text = '{"id": 7, "key": "5", "input": "/p", "more": [1]}\r\n\n{"input":"/q","key":5,"id":"0008"}\n'
    assert parse(text.encode(), "patch", place="x") == [Product("patch", 7, 5, "/p"), Product("patch", 8, 5, "/q")]


@pytest.mark.parametrize("cut", range(1, len(SEED)))
def test_a_last_line_counts_when_it_is_complete(cut: int) -> None:
    first = '{"id":1,"key":1,"input":"/é"}\n'.encode()
    found = parse(first + SEED.encode()[:cut], "base", place="x")
    assert len(found) == (2 if cut >= len(SEED) - 1 else 1)


def test_a_letter_cut_in_two_is_a_half_written_line_too() -> None:
    assert parse('{"id":1,"key":1,"input":"/é'.encode()[:-1], "base", place="x") == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "not JSON"),
        ("[1]", "an object with id, key and input"),
        ('{"key":"1","input":"/x"}', "'id' must be a number, got None"),
        ('{"id":"x","key":"1","input":"/x"}', "'id' must be a number, got 'x'"),
        ('{"id":true,"key":1,"input":"/x"}', "'id' must be a number, got True"),
        ('{"id":-1,"key":1,"input":"/x"}', "'id' must be a number"),
        ('{"id":1,"key":1,"input":""}', "'input' must be the path"),
        ('{"id":1,"key":1,"input":5}', "'input' must be the path"),
        ('{"id":2,"key":1,"input":"/x"}', "a base's key must be its id 2, got 1"),
        ("[" * 100_000, "is garbled"),
        ("\xff", "not JSON"),
    ],
)
def test_a_garbled_line_is_named(line: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        parse(SEED.encode() + line.encode("latin-1") + b"\n" + SEED.encode(), "base", place="/done/base.txt")
    assert "'/done/base.txt', line 2" in str(error.value)
    assert message in str(error.value)
    assert len(str(error.value)) < 300


def test_a_patch_is_newer_than_its_base() -> None:
    with pytest.raises(DataError, match="must be larger than its key 5, got 5"):
        parse(b'{"id":5,"key":5,"input":"/x"}\n', "patch", place="x")


@pytest.mark.parametrize(
    ("bases", "patches", "current", "expected"),
    [
        ([], [], None, None),
        ([], [patch(2, 1)], None, None),
        ([base(1), base(5)], [], None, base(5)),
        ([base(5)], [patch(6, 5)], None, base(5)),
        ([base(5)], [patch(6, 5), patch(7, 5)], base(5), patch(6, 5)),
        ([base(5)], [patch(6, 5), patch(7, 5)], patch(6, 5), patch(7, 5)),
        ([base(5)], [patch(6, 5), patch(7, 5)], patch(7, 5), None),
        ([base(5), base(9)], [patch(6, 5), patch(10, 9)], patch(6, 5), base(9)),
        ([base(5), base(9)], [patch(6, 5), patch(10, 9)], base(9), patch(10, 9)),
        ([base(9), base(5)], [], base(9), None),  # the last line counts, and it is older
        ([base(5)], [patch(8, 4), patch(7, 5)], base(5), patch(7, 5)),  # of another base
    ],
)
def test_what_is_next(
    bases: list[Product], patches: list[Product], current: Product | None, expected: Product | None
) -> None:
    assert choose(bases, patches, current=current) == expected


def test_what_is_written_is_read_and_nothing_is_there_before(tmp_path: Path) -> None:
    where = str(tmp_path / "donefile")
    assert next_product(where, current=None) is None
    first = append(where, "base", id=10, input="/data/10/base")
    assert (tmp_path / "donefile" / "base.txt").read_text() == '{"id": "10", "key": "10", "input": "/data/10/base"}\n'
    assert next_product(where, current=None) == first
    second = append(where, "patch", id=11, key=10, input="/data/11/patch")
    assert next_product(where, current=first) == second
    assert next_product(where, current=first, patches=False) is None
    for wrong in ({"id": 5, "key": None}, {"id": 5, "key": 7}):
        with pytest.raises(DataError):
            append(where, "patch", input="/x", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("left", ['{"id":"2","key"', '{"id": "2", "key": "2", "input": "/2"}'])
def test_what_a_crash_left_of_a_line_is_mended(tmp_path: Path, left: str) -> None:
    file = tmp_path / "base.txt"
    for where in (str(tmp_path), f"memory://{tmp_path}"):
        text = '{"id": "1", "key": "1", "input": "/1"}\n' + left
        with fsspec.open(f"{where}/base.txt", "w") as stream:
            stream.write(text)
        append(where, "base", id=3, input="/3")
        assert [product.id for product in read(where, "base")] == ([1, 2, 3] if left.endswith("}") else [1, 3])
    assert file.read_text().count("\n") == len(read(str(tmp_path), "base"))


@contextmanager
def other_web_server(root: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=root)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextmanager
def own_web_server(root: Path) -> Iterator[str]:
    with FileServer(root) as server:
        yield server.address


@pytest.mark.parametrize("serving", [own_web_server, other_web_server, ftp_server], ids=["own", "other", "ftp"])
def test_it_is_read_over_the_network_and_so_is_what_it_names(serving: object, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "data" / "1" / "base").mkdir(parents=True)
    (root / "data" / "1" / "base" / "part 0").write_bytes(b"zero" * 1000)
    (root / "data" / "1" / "base" / "part-1").write_bytes(b"")
    (root / "data" / "1" / "base" / "_SUCCESS").touch()
    append(str(root / "donefile"), "base", id=1, input="/data/1/base")
    with serving(root) as address:  # type: ignore[operator]
        found = next_product(f"{address}/donefile", current=None)
        assert found == Product("base", 1, 1, f"{address}/data/1/base")
        copies = fetch_directory(found.input, tmp_path / "copy")
        assert [(copy.name, copy.stat().st_size) for copy in copies] == [("part 0", 4000), ("part-1", 0)]
        (root / "data" / "1" / "base" / "sub").mkdir()
        with pytest.raises(DataError, match=r"'sub/?' is a directory"):
            fetch_directory(found.input, tmp_path / "copy")
        with pytest.raises((DataError, PeerError)):
            fetch_directory(f"{address}/nothing", tmp_path / "copy")
    with pytest.raises(PeerError, match="cannot be read"):
        next_product(f"{address}/donefile", current=None)


@pytest.mark.parametrize(
    ("place", "named", "expected"),
    [
        ("http://host:81/done/base.txt", "/data/x", "http://host:81/data/x"),
        ("http://host:81/done/base.txt", "http://host:81/data/x", "http://host:81/data/x"),
        ("s3://bucket/base.txt", "s3://bucket/x", "s3://bucket/x"),
        ("s3://bucket/base.txt", "/data/x", "s3://bucket/data/x"),
        ("/done/base.txt", "/data/x", "/data/x"),
    ],
)
def test_inputs_are_where_the_donefile_is(place: str, named: str, expected: str) -> None:
    line = json.dumps({"id": 1, "key": 1, "input": named}).encode()
    assert parse(line, "base", place=place)[0].input == expected


@pytest.mark.parametrize(
    "named", ["file:///etc", "s3://bucket/x", "http://other/x", "http://host/x", "https://host:81/x"]
)
@pytest.mark.parametrize("place", ["http://host:81/done/base.txt", "s3://done/base.txt", "/done/base.txt"])
def test_inputs_elsewhere_are_refused(place: str, named: str) -> None:
    line = json.dumps({"id": 1, "key": 1, "input": named}).encode() + b"\n"
    with pytest.raises(DataError, match="its input"):
        parse(line, "base", place=place)


class Endless(BaseHTTPRequestHandler):
    """A listing of one file, which has no end, or is elsewhere."""

    def do_GET(self) -> None:
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://localhost:1/x")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        if self.path.endswith("/"):
            self.wfile.write(b'<a href="part-0">part-0</a>')
            return
        with suppress(ConnectionError):
            while True:
                self.wfile.write(bytes(1 << 16))

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def endless() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    server.daemon_threads = True
    with server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever)
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_file_without_end_is_given_up_at_the_limit(tmp_path: Path, endless: str) -> None:
    with pytest.raises(DataError, match="larger than 3000000 bytes"):
        fetch_directory(f"{endless}/data", tmp_path, largest=3_000_000)
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_end_leaves_room_on_the_disk(
    tmp_path: Path, endless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [200 << 20]

    def usage(_: Path) -> SimpleNamespace:
        free[0] -= 64 << 20  # as if others wrote, too
        return SimpleNamespace(free=free[0])

    monkeypatch.setattr("clickline.compat.cube.locations.shutil.disk_usage", usage)
    with pytest.raises(DataError, match="there is room for"):
        fetch_directory(f"{endless}/data", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_redirect_to_another_host_is_not_followed(endless: str) -> None:
    with pytest.raises(PeerError, match="redirected to another host, localhost"):
        read_bytes(f"{endless}/away", limit=100)


def test_it_cannot_be_written_by_http() -> None:
    with pytest.raises(DataError, match="cannot be written by HTTP"):
        append("http://127.0.0.1:1/done", "base", id=1, input="/x")


@pytest.mark.heavy
def test_the_verb_announces(tmp_path: Path) -> None:
    done = run("rows", "announce", "/data/base", "--donefile", tmp_path, "--id", "5", "--json")
    assert json.loads(done.stdout) == {"kind": "base", "id": 5, "key": 5, "input": "/data/base"}
    assert run("rows", "announce", "/p", "--donefile", tmp_path, "--id", "6", "--patch-of", "5").returncode == 0
    assert next_product(str(tmp_path), current=base(5)) == Product("patch", 6, 5, "/p")


values = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats()
lines = st.fixed_dictionaries({}, optional=dict.fromkeys(("id", "key", "input"), values)).map(json.dumps)


@budgeted
@given(
    st.lists(lines | st.text(max_size=30), max_size=4).map("\n".join) | st.text(), st.sampled_from(["base", "patch"])
)
def test_any_donefile_is_read_or_refused(text: str, kind: str) -> None:
    try:
        found = parse(text.encode("utf-8", "surrogatepass"), kind, place="x")  # type: ignore[arg-type]
    except DataError as error:
        assert "line " in str(error)
    else:
        assert all(product.kind == kind and product.input for product in found)
