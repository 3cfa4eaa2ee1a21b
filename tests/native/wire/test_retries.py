"""Connections break, servers restart, bytes are damaged: requests arrive all the same, and count once."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from clickline._native import Lane, Table, WireServer
from clickline.errors import PeerError, ReplacedError
from support.doubles.wire_peers import (
    CALL,
    ERROR,
    REPLY,
    TOKEN,
    Proxy,
    authenticate,
    call_payload,
    dial,
    fake_server,
    frame,
    keys_in_order,
    receive,
)
from support.eventually import eventually

Serve = Callable[..., WireServer]
Connect = Callable[..., Lane]
Meddle = Callable[[WireServer], Proxy]


class Counting:
    """A handler that counts, and answers with the count."""

    def __init__(self) -> None:
        self.count = 0
        self.go = threading.Event()
        self.go.set()

    def __call__(self, name: str, client: int, op: str, body: memoryview) -> bytes:
        self.count += 1
        number = self.count
        assert self.go.wait(20)
        return b"%d" % number


@pytest.mark.parametrize("direction", ["garble_request", "garble_reply"])
def test_a_garbled_byte_is_noticed_and_the_request_repeated(
    serve: Serve, connect: Connect, meddle: Meddle, direction: str
) -> None:
    server = serve()
    proxy = meddle(server)
    lane = connect(proxy)
    assert lane.call("x", [[b"before"]]) == [b"x before"]
    getattr(proxy, direction).set()
    assert lane.call("x", [[b"after"]]) == [b"x after"]
    assert lane.counters()["retries"] == 1
    assert lane.counters()["reconnects"] == 1
    assert server.counters()["garbled"] == (direction == "garble_request")


@pytest.mark.parametrize(("once", "executed"), [(True, 2), (False, 3)])
def test_a_request_whose_reply_was_cut_off_is_executed_once(
    serve: Serve, connect: Connect, meddle: Meddle, once: bool, executed: int
) -> None:
    """With the server's memory of what was done switched off it runs twice: so it is that memory which helps."""
    handler = Counting()
    server = serve(handler=handler, once=once)
    proxy = meddle(server)
    lane = connect(proxy)
    assert lane.call("count", [[]], once=True) == [b"1"]
    proxy.cut_reply.set()
    assert lane.call("count", [[]], once=True) == [b"%d" % executed]
    assert handler.count == executed
    assert server.counters()["repeated"] == once


def test_a_request_that_may_be_repeated_is(serve: Serve, connect: Connect, meddle: Meddle) -> None:
    handler = Counting()
    proxy = meddle(serve(handler=handler))
    lane = connect(proxy)
    lane.call("count", [[]])
    proxy.cut_reply.set()
    assert lane.call("count", [[]]) == [b"3"]


@pytest.mark.parametrize("once", [True, False])
def test_a_push_counts_once(serve: Serve, connect: Connect, meddle: Meddle, once: bool) -> None:
    server, table, alone = serve(once=once), Table(dim=2), Table(dim=2)
    server.add_table(0, table)
    server.open()
    proxy = meddle(server)
    lane = connect(proxy)
    keys = keys_in_order(10)
    gradients, ones = np.ones((len(keys), 2), np.float32), np.ones(len(keys), np.float32)
    for step in range(3):
        if step == 1:
            proxy.cut_reply.set()
        lane.push(0, keys, gradients, ones, ones, np.zeros(len(keys), np.uint16), tick=step)
        alone.push(keys, gradients, ones, ones, np.zeros(len(keys), np.uint16), tick=step)
    assert lane.counters()["retries"] == 1
    assert table.step == (3 if once else 4)
    assert np.array_equal(table.rows(keys), alone.rows(keys)) == once


def test_a_repeated_request_waits_for_the_execution_under_way(serve: Serve, connect: Connect) -> None:
    handler = Counting()
    handler.go.clear()
    server = serve(handler=handler)
    lane = connect(server, deadline=0.3)  # the first try times out while the handler is busy
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(lane.call, "count", [[]], once=True)
        eventually(lambda: lane.counters()["retries"] >= 1)
        handler.go.set()
        assert reply.result(20) == [b"1"]
    assert handler.count == 1


def test_sequences_in_every_order(serve: Serve) -> None:
    server = serve(handler=Counting())

    def ask(sequence: int) -> tuple[int, bytes]:
        with dial(server.address) as peer:
            authenticate(peer, token=TOKEN, job="clicks", client=3, lane=1)
            peer.sendall(frame(CALL, call_payload("count", b"", sequence=sequence), number=9))
            kind, number, payload = receive(peer)
            assert number == 9
            return kind, payload

    assert ask(1) == (REPLY, b"1")
    assert ask(1) == (REPLY, b"1")
    assert ask(2) == (REPLY, b"2")
    assert ask(1)[0] == ERROR
    assert b"done before; 2 was the last" in ask(1)[1]
    assert server.counters()["lost"] == 0
    assert ask(6) == (REPLY, b"3")
    assert server.counters()["lost"] == 3
    assert server.sequences() == [(3, 1, 6)]
    server.forget(3)
    assert server.sequences() == []
    assert ask(1) == (REPLY, b"4")


def test_an_error_is_remembered_too(serve: Serve) -> None:
    calls: list[str] = []

    def handler(name: str, client: int, op: str, body: memoryview) -> bytes:
        calls.append(op)
        raise PeerError("full")

    server = serve(handler=handler)
    for _ in range(2):
        with dial(server.address) as peer:
            authenticate(peer, token=TOKEN, job="clicks")
            peer.sendall(frame(CALL, call_payload("x", b"", sequence=1)))
            assert receive(peer)[::2] == (ERROR, b"PeerError: full")
    assert calls == ["x"]


def test_what_was_done_before_a_restart_is_not_done_again(serve: Serve, connect: Connect) -> None:
    table = Table(dim=1)
    first = serve("tcp:127.0.0.1:0")
    first.add_table(0, table)
    first.open()
    lane = connect(first)
    one, slots = np.ones(1, np.float32), np.zeros(1, np.uint16)
    for _ in range(2):
        lane.push(0, np.array([1], np.uint64), np.ones((1, 1), np.float32), one, one, slots, tick=1)
    lane.call("x", [[]], once=True)
    first.shut()
    saved = first.sequences()
    assert saved == [(7, 0, 3)]
    first.close()
    handler = Counting()
    second = serve(first.address, handler=handler)
    second.add_table(0, table)
    second.restore_sequences(saved)
    second.open()
    with dial(second.address) as peer:  # the same client asks again for what it had no reply to
        authenticate(peer, token=TOKEN, job="clicks", client=7)
        peer.sendall(frame(CALL, call_payload("x", b"", sequence=3)))
        assert receive(peer)[::2] == (REPLY, b"")
    assert handler.count == 0
    assert lane.call("x", [[]], once=True) == [b"1"]
    assert second.counters()["lost"] == 0


def push_one(lane: Lane, tick: int = 1) -> None:
    one, slots = np.ones(1, np.float32), np.zeros(1, np.uint16)
    lane.push(0, np.array([1], np.uint64), np.ones((1, 1), np.float32), one, one, slots, tick=tick)


def test_a_push_that_waits_while_a_checkpoint_with_it_is_loaded_is_not_applied_again(
    serve: Serve, connect: Connect
) -> None:
    table = Table(dim=1)
    server = serve()
    lane = connect(server)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(push_one, lane)  # its first request: number 1, of client 7
        eventually(lambda: server.counters()["requests"] == 1)
        eventually(lambda: server.counters()["under_way"] == 1)
        server.restore_sequences([(7, 0, 1)])
        server.add_table(0, table)
        server.open()
        waiting.result(10)
    assert table.step == 0
    push_one(lane)
    assert (table.step, server.sequences()) == (1, [(7, 0, 2)])


def test_a_handler_that_waits_while_a_checkpoint_is_loaded_learns_that_its_request_was_done(
    serve: Serve, connect: Connect
) -> None:
    began, loaded = threading.Event(), threading.Event()

    def handler(name: str, client: int, op: str, body: memoryview) -> bytes:
        began.set()
        assert loaded.wait(20)
        return b"done before" if server.already_done() else b"done"

    server = serve(handler=handler, answers_again=True)
    lane = connect(server)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lane.call, "x", [[]], once=True)
        assert began.wait(10)
        server.restore_sequences([(7, 0, 1)])
        loaded.set()
        assert waiting.result(10) == [b"done before"]
    assert lane.call("x", [[]], once=True) == [b"done"]
    assert not server.already_done()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def test_large_answers_are_not_kept_but_had_again(serve: Serve, connect: Connect) -> None:
    size, clients = 4 << 20, 40
    executed, answered_again = [], []

    def handler(name: str, client: int, op: str, body: memoryview) -> bytes:
        (answered_again if server.already_done() else executed).append(client)
        return bytes([client % 256]) * size

    server = serve(handler=handler, answers_again=True)
    before = resident()
    for client in range(1, clients + 1):
        for _ in range(2):  # the same number from two connections: the second had lost the answer
            with dial(server.address) as peer:
                authenticate(peer, token=TOKEN, job="clicks", client=client)
                peer.sendall(frame(CALL, call_payload("x", b"", sequence=1)))
                assert receive(peer)[::2] == (REPLY, bytes([client % 256]) * size)
    assert executed == answered_again == list(range(1, clients + 1))
    assert server.sequences() == [(client, 0, 1) for client in range(1, clients + 1)]
    assert resident() - before < clients * size // 2


def test_small_answers_are_kept_also_if_the_handler_could_answer_again(serve: Serve) -> None:
    handler = Counting()
    server = serve(handler=handler, answers_again=True)
    for _ in range(2):
        with dial(server.address) as peer:
            authenticate(peer, token=TOKEN, job="clicks")
            peer.sendall(frame(CALL, call_payload("count", b"", sequence=1)))
            assert receive(peer)[::2] == (REPLY, b"1")
    assert handler.count == 1


@pytest.mark.parametrize("tcp", [False, True])
def test_a_waiting_client_survives_a_restart(serve: Serve, connect: Connect, tcp: bool) -> None:
    first = serve("tcp:127.0.0.1:0" if tcp else "")
    first.add_table(0, Table(dim=1))  # but it is not open yet
    lane = connect(first)
    out = np.ones((1, 1), np.float32)
    with ThreadPoolExecutor(1) as pool:
        versions = pool.submit(lane.pull, 0, np.array([1], np.uint64), out, training=False)
        eventually(lambda: first.counters()["requests"] == 1)
        first.close()
        eventually(lambda: lane.counters()["retries"] >= 1)  # nobody is there
        second = serve(first.address)
        second.add_table(0, Table(dim=1))
        second.open()
        assert versions.result(20) == [0]
    assert out[0, 0] == 0
    first.close()
    assert tcp or Path(first.address[5:]).exists(), "the first must not remove the second's file"


def test_a_server_may_move(serve: Serve, connect: Connect) -> None:
    handler = Counting()
    handler.go.clear()
    old, new = serve(handler=handler), serve("tcp:127.0.0.1:0")
    lane = connect(old)
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(lane.call, "x", [[b"1"]])
        eventually(lambda: handler.count == 1)
        lane.set_address(0, new.address)  # the old one still does not answer
        assert reply.result(20) == [b"x 1"]
    handler.go.set()
    lane.set_address(0, old.address)
    assert lane.call("x", [[]]) == [b"2"]
    with pytest.raises(ValueError, match="server must be 0 to 0"):
        lane.set_address(1, old.address)


def test_it_gives_up_in_the_end_and_says_what_was_wrong(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    lane = connect(f"unix:{tmp_path}/nobody", retry_for=0.3)
    begin = time.monotonic()
    with pytest.raises(PeerError, match=r"nobody: No such file or directory \(tried \d+ times in 0\.\d s\)"):
        lane.call("x", [[]])
    assert time.monotonic() - begin >= 0.3
    assert lane.counters()["retries"] > 1


def test_a_server_that_never_answers_times_out(serve: Serve, connect: Connect) -> None:
    handler = Counting()
    handler.go.clear()
    lane = connect(serve(handler=handler, name="pserver.0"), deadline=0.1, retry_for=0.25)
    with pytest.raises(PeerError, match=r"pserver\.0 at .*: timed out while waiting for an answer \(tried \d times"):
        lane.call("x", [[]])
    handler.go.set()
    assert lane.call("x", [[]], deadline=20.0)


def test_a_server_that_talks_nonsense_is_given_up(connect: Connect) -> None:
    with fake_server(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(100)) as address:
        lane = connect(address, retry_for=0.1)
        with pytest.raises(PeerError, match="these are not frames of ours"):
            lane.call("x", [[]])


def test_a_fenced_client_changes_nothing_any_more(serve: Serve, connect: Connect) -> None:
    """Also on a connection that it has, and of what it sends again; others are answered as before."""
    done: list[int] = []
    server = serve(handler=lambda name, client, op, body: done.append(client) or [b"ok"])
    fenced, other = connect(server, client=7), connect(server, client=8)
    for lane in (fenced, other):
        lane.call("learn", [[b""]], once=True)
    server.fence(7)
    with pytest.raises(ReplacedError, match="client 7 was replaced"):
        fenced.call("learn", [[b""]], once=True)
    other.call("learn", [[b""]], once=True)
    assert done == [7, 8, 8]
    assert server.counters()["lost"] == 0


def test_a_fence_reaches_a_push_that_waits_for_tables(serve: Serve, connect: Connect) -> None:
    server, table = serve(), Table(dim=2)
    server.add_table(0, table)  # and not opened
    lane = connect(server)
    keys, slots = keys_in_order(3), np.zeros(3, np.uint16)
    ones, grads = np.ones(3, np.float32), np.ones((3, 2), np.float32)
    with ThreadPoolExecutor(1) as pool:
        push = pool.submit(lane.push, 0, keys, grads, ones, ones, slots, tick=1)
        eventually(lambda: server.counters()["requests"] == 1)
        server.fence(7)
        with pytest.raises(ReplacedError):
            push.result(30)
    server.open()
    assert len(table) == 0


def test_a_server_that_was_replaced_at_its_address_is_left(serve: Serve, connect: Connect, meddle: Meddle) -> None:
    """The connection is well, but the process behind it does not count any more."""
    old, new = serve(handler=lambda *_: [b"old"]), serve(handler=lambda *_: [b"new"])
    proxy = meddle(old)
    lane = connect(proxy)
    assert lane.call("who", [[b""]]) == [b"old"]
    proxy.target = new.address
    assert lane.call("who", [[b""]]) == [b"old"]
    lane.set_address(0, proxy.address, reconnect=True)
    assert lane.call("who", [[b""]]) == [b"new"]
