"""Calls reach the handler and its reply the caller, over both kinds of sockets, from many threads."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickline._native import Lane, Table, WireServer
from clickline.errors import CheckpointError, PeerError

Serve = Callable[..., WireServer]
Connect = Callable[..., Lane]


@pytest.mark.parametrize("address", ["", "tcp:127.0.0.1:0", "tcp:[::1]:0", "tcp:localhost:0"])
def test_round_trip(serve: Serve, connect: Connect, address: str) -> None:
    try:
        server = serve(address)
    except PeerError:
        if "::1" not in address:
            raise
        pytest.skip("no IPv6 here")
    assert not server.address.endswith(":0")
    lane = connect(server)
    assert lane.call("say", [[b"a", np.arange(2, dtype=np.uint8), memoryview(b"c")]]) == [b"say a\0\1c"]
    assert lane.call("nothing", [[]]) == [b"nothing "]
    assert lane.counters()["requests"] == 2
    assert server.counters()["requests"] == 2


def test_the_handler_learns_who_calls(serve: Serve, connect: Connect) -> None:
    seen: list[tuple[Any, ...]] = []

    def handler(name: str, client: int, op: str, body: memoryview) -> bytes:
        seen.append((name, client, op, bytes(body), body.readonly))
        return b""

    lane = connect(serve(handler=handler), name="trainer.3", client=2**64 - 1)
    lane.call("größe", [[b"12"]])
    assert seen == [("trainer.3", 2**64 - 1, "größe", b"12", True)]


def test_all_servers_or_only_one(serve: Serve, connect: Connect) -> None:
    lane = connect(*(serve() for _ in range(3)))
    assert lane.call("to", [[b"0"], [b"1"], [b"2"]]) == [b"to 0", b"to 1", b"to 2"]
    assert lane.call("to", [[b"x"]], only=2) == [b"to x"]
    with pytest.raises(ValueError, match="3 entries"):
        lane.call("to", [[b"0"]])
    with pytest.raises(ValueError, match="only"):
        lane.call("to", [[b"0"]], only=3)


def test_all_are_asked_before_any_answers(serve: Serve, connect: Connect) -> None:
    both = threading.Barrier(2, timeout=10)

    def handler(*_: object) -> bytes:
        both.wait()
        return b"met"

    assert connect(serve(handler=handler), serve(handler=handler)).call("meet", [[], []]) == [b"met", b"met"]


def test_big_bodies_and_replies(serve: Serve, connect: Connect) -> None:
    body = np.random.default_rng(0).integers(0, 256, 9_000_000, dtype=np.uint8)
    lane = connect(serve(), serve("tcp:127.0.0.1:0"))
    for reply in lane.call("x", [[body], [body[:10], body[10:]]]):
        assert reply[2:] == body.tobytes()


@pytest.mark.parametrize(
    ("error", "message"),
    [(KeyError("k"), "KeyError: 'k'"), (CheckpointError("no such step"), "CheckpointError: no such step")],
)
def test_a_handlers_exception_reaches_the_caller(
    serve: Serve, connect: Connect, error: Exception, message: str
) -> None:
    def handler(*_: object) -> bytes:
        raise error

    server = serve(handler=handler, name="pserver.5")
    with pytest.raises(PeerError) as caught:
        connect(server).call("x", [[]])
    assert str(caught.value) == f"pserver.5 at {server.address}: {message}"


def test_a_reply_of_the_wrong_type_is_an_error(serve: Serve, connect: Connect) -> None:
    lane = connect(serve(handler=lambda *_: "text"))
    with pytest.raises(PeerError, match="TypeError"):
        lane.call("x", [[]])


def test_one_servers_error_leaves_the_lane_in_step(serve: Serve, connect: Connect) -> None:
    def handler(name: str, client: int, op: str, body: memoryview) -> bytes:
        if bytes(body) == b"bad":
            raise CheckpointError("bad")
        return bytes(body)

    lane = connect(serve(handler=handler), serve(handler=handler))
    for _ in range(3):
        with pytest.raises(PeerError, match="bad"):
            lane.call("x", [[b"bad"], [b"good"]])
        assert lane.call("x", [[b"1"], [b"2"]]) == [b"1", b"2"]
    assert lane.counters()["reconnects"] == 0


def test_a_view_that_the_handler_keeps_stays_valid(serve: Serve, connect: Connect) -> None:
    kept: list[Any] = []

    def handler(name: str, client: int, op: str, body: memoryview) -> bytes:
        kept.append(np.frombuffer(body, np.uint8))
        return b""

    lane = connect(serve(handler=handler))
    for value in range(5):
        lane.call("keep", [[bytes([value]) * 1000]])
    assert [set(array.tolist()) for array in kept] == [{0}, {1}, {2}, {3}, {4}]


def test_many_clients_and_threads(serve: Serve, connect: Connect) -> None:
    servers = [serve(), serve("tcp:127.0.0.1:0")]
    lanes = [connect(*servers, client=client) for client in range(1, 5)]

    def work(number: int) -> None:
        lane = lanes[number % len(lanes)]  # two threads share each
        for i in range(30):
            text = f"{number}.{i}".encode()
            assert lane.call("x", [[text], [text]], once=bool(i % 2)) == [b"x " + text] * 2

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert all(server.counters()["requests"] == 8 * 30 for server in servers)
    assert sorted(servers[0].sequences()) == [(client, 0, 30) for client in range(1, 5)]


@pytest.mark.parametrize(
    ("action", "outcome"), [("", "KeyboardInterrupt"), ("cancel", "PeerError"), ("close", "PeerError")]
)
def test_ctrl_c_ends_a_blocked_call(tmp_path: Path, action: str, outcome: str) -> None:
    """Python's handler runs while the call waits, on the same thread; what it does to the lane is safe."""
    script = f"""
import signal, threading
from clickline._native import Lane, WireServer
go = threading.Event()
def handler(*_):
    print("called", flush=True)
    go.wait()
    return b""
server = WireServer("unix:{tmp_path}/s", token=b"t", job="j", name="n", handler=handler)
lane = Lane([server.address], token=b"t", job="j", name="m", client=1, lane=0)
if {action!r}:
    signal.signal(signal.SIGINT, lambda *_: getattr(lane, {action!r})())
try:
    lane.call("x", [[]])
except BaseException as error:
    print(type(error).__name__, flush=True)
go.set()
server.close()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "called\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[0] == f"{outcome}\n"
        assert process.returncode == 0


def test_a_process_may_end_with_calls_under_way(tmp_path: Path) -> None:
    """Threads of the server are inside the handler, of which nobody knows at exit."""
    script = f"""
import threading
from clickline._native import Lane, WireServer
called = threading.Semaphore(0)
def handler(name, client, op, body):
    called.release()
    while op == "spin":
        sum(range(1000))
    threading.Event().wait()
server = WireServer("unix:{tmp_path}/s", token=b"t", job="j", name="n", handler=handler)
for i, op in enumerate(["spin", "wait", "spin", "wait"]):
    lane = Lane([server.address], token=b"t", job="j", name="m", client=i, lane=0)
    threading.Thread(target=lane.call, args=(op, [[]]), daemon=True).start()
for _ in range(4):
    called.acquire()
print("end", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("end\n", "", 0)


def test_names_and_addresses_are_checked(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    for address in ("unix:", "udp:1:2", "tcp:host", "tcp:host:99999", "tcp:host:port", f"unix:{'x' * 200}"):
        with pytest.raises(ValueError, match=r"address|port|path"):
            serve(address)
    with pytest.raises(PeerError, match="cannot listen at unix:/nowhere/at/all"):
        serve("unix:/nowhere/at/all")
    with pytest.raises(ValueError, match="token"):
        serve(token=b"")
    with pytest.raises(ValueError, match="255"):
        serve(job="x" * 256)
    server = serve()
    with pytest.raises(PeerError, match="in use"):
        serve(server.address)
    with pytest.raises(ValueError, match="one server"):
        connect()
    with pytest.raises(ValueError, match="deadline"):
        connect(server, deadline=0.0)


def test_a_table_outlives_its_owner(serve: Serve, connect: Connect) -> None:
    server = serve()
    server.add_table(0, Table(dim=2, init_scale=0.0))  # nobody else holds it
    server.open()
    out = np.ones((1, 2), np.float32)
    connect(server).pull(0, np.array([5], np.uint64), out, training=True)
    assert not out.any()
