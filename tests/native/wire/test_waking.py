"""Nobody waits longer than they have to: cancel, close, a client that hangs up, tables that are shut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import pytest

from clickline._native import Lane, Table, WireServer
from clickline.errors import PeerError
from support.eventually import eventually

Serve = Callable[..., WireServer]
Connect = Callable[..., Lane]
KEY = np.array([1], np.uint64)


def pull(lane: Lane) -> list[int]:
    return lane.pull(0, KEY, np.empty((1, 1), np.float32), training=False)


def raises(future: Future[object], message: str) -> None:
    """It would wait for ever, or as long as it retries, and then say something else."""
    with pytest.raises(PeerError, match=message):
        future.result(60)


def threads_of_this_process() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.parametrize("reachable", [True, False])
@pytest.mark.parametrize("way", ["cancel", "close"])
def test_a_blocked_call_ends_at_once(serve: Serve, connect: Connect, tmp_path: Path, way: str, reachable: bool) -> None:
    server = serve()  # not open: a pull waits
    server.add_table(0, Table(dim=1))
    lane = connect(server if reachable else f"unix:{tmp_path}/nobody")
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(pull, lane) for _ in range(2)]  # one waits, one queues behind it
        eventually(lambda: server.counters()["requests"] == 1 if reachable else lane.counters()["retries"] >= 2)
        getattr(lane, way)()
        done = [next(as_completed(calls, timeout=60))]
        done += [call for call in calls if call is not done[0]]
        while not done[1].done():  # it may have come to the queue only now
            getattr(lane, way)()
        for call in done:
            raises(call, "cancelled")
    if reachable:
        server.open()
        if way == "cancel":
            assert pull(lane) == [0]
        else:
            with pytest.raises(PeerError, match="closed"):
                pull(lane)


def test_cancel_of_an_idle_lane_does_nothing(serve: Serve, connect: Connect) -> None:
    lane = connect(serve())
    lane.cancel()
    assert lane.call("x", [[]]) == [b"x "]
    lane.cancel()
    assert lane.call("x", [[]]) == [b"x "]


def test_close_wakes_everybody_and_leaves_nothing(serve: Serve, connect: Connect) -> None:
    before = threads_of_this_process()
    server = serve()
    server.add_table(0, Table(dim=1))
    path = Path(server.address[5:])
    assert path.is_socket()
    lanes = [connect(server, client=client, retry_for=0.0) for client in range(4)]
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(pull, lane) for lane in lanes]
        eventually(lambda: server.counters()["requests"] == 4)
        server.close()
        for call in calls:
            raises(call, "closed the connection")
    assert not path.exists()
    assert server.counters()["connections"] == 0
    eventually(lambda: threads_of_this_process() <= before)
    server.close()


def test_a_handler_cannot_close_its_own_server(serve: Serve, connect: Connect) -> None:
    servers: list[WireServer] = []

    def handler(*_: object) -> bytes:
        servers[0].close()
        return b""

    servers.append(serve(handler=handler))
    with pytest.raises(PeerError, match="a handler cannot close its own server"):
        connect(servers[0]).call("x", [[]])


def test_a_client_that_hangs_up_is_not_waited_for(serve: Serve, connect: Connect) -> None:
    server = serve()
    server.add_table(0, Table(dim=1))
    lane = connect(server, deadline=0.1, retry_for=1.0)  # hangs up after each try
    with pytest.raises(PeerError, match="timed out"):
        pull(lane)
    assert server.counters()["requests"] > 2
    eventually(lambda: server.counters()["connections"] == 0)


def test_a_push_whose_client_hung_up_before_it_began_was_never_there(serve: Serve, connect: Connect) -> None:
    server, table = serve(), Table(dim=1)
    server.add_table(0, table)
    lane = connect(server, deadline=0.1)
    one = np.ones(1, np.float32)
    with ThreadPoolExecutor(1) as pool:
        arguments = (0, KEY, np.ones((1, 1), np.float32), one, one, np.zeros(1, np.uint16))
        push = pool.submit(lane.push, *arguments, tick=1)
        eventually(lambda: lane.counters()["retries"] >= 2)
        server.open()
        push.result(20)
    assert table.step == 1
    assert server.sequences() == [(7, 0, 1)]


def test_tables_can_be_shut_and_opened(serve: Serve, connect: Connect) -> None:
    server = serve()
    server.add_table(0, Table(dim=1))
    lane, other = connect(server), connect(server, client=8)
    with ThreadPoolExecutor(1) as pool:
        for round_ in range(3):
            asked = server.counters()["requests"]
            call = pool.submit(pull, lane)
            eventually(lambda asked=asked: server.counters()["requests"] > asked)  # type: ignore[misc]
            assert other.call("still", [[b"here"]]) == [b"still here"]
            assert server.counters()["pulls"] == round_
            server.open()
            call.result(20)
            server.shut()


def test_shut_waits_for_what_is_under_way(serve: Serve, connect: Connect) -> None:
    """Between shut and open nothing changes, however many are pushing."""
    server, table = serve(), Table(dim=4)
    server.add_table(0, table)
    server.open()
    stop = threading.Event()
    keys, ones = np.sort(np.arange(1, dtype=np.uint64)), np.ones(1, np.float32)

    def work(client: int) -> int:
        lane, pushes = connect(server, client=client), 0
        while not stop.is_set():
            lane.push(0, keys, np.ones((1, 4), np.float32), ones, ones, np.zeros(1, np.uint16), tick=1)
            pushes += 1
        return pushes

    with ThreadPoolExecutor(3) as pool:
        workers = [pool.submit(work, client) for client in range(1, 4)]
        for _ in range(5):
            reached = table.step + 10
            eventually(lambda reached=reached: table.step >= reached)  # type: ignore[misc]
            server.shut()
            step, done = table.step, sum(last for _, _, last in server.sequences())
            assert step == done, "what is in the table and what is counted as executed are of one moment"
            server.add_table(1, Table(dim=1))
            assert table.step == step
            server.open()
        stop.set()
        assert sum(worker.result(20) for worker in workers) == table.step


def test_an_idle_connection_costs_no_request_when_it_breaks(serve: Serve, connect: Connect) -> None:
    first = serve("tcp:127.0.0.1:0")
    lane = connect(first)
    lane.call("x", [[]])
    first.close()
    serve(first.address)
    assert lane.call("x", [[b"again"]]) == [b"x again"]


def test_a_stale_socket_file_is_taken_over(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "stale"))
    server = serve(f"unix:{tmp_path}/stale")
    assert connect(server).call("x", [[]]) == [b"x "]
    assert Path(server.address[5:]).stat().st_mode & 0o777 == 0o600
