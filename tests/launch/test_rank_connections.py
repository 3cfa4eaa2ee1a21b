"""Rank 0 and the other ranks connect over TCP: only who knows the job's token."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator

import pytest

from clickline.errors import PeerError
from clickline.launch.hosts.host_messages import LogLines, RunnerDone
from clickline.launch.hosts.runner_connection import ConnectionLost, EventQueue
from clickline.launch.local.local_processes import free_ports
from clickline.launch.mpi.rank_connections import RankConnection, RankListener, connect_to_first

TOKEN = "the token of a job in a test"  # noqa: S105
HERE = "127.0.0.1"


@pytest.fixture
def port() -> int:
    return free_ports(HERE, 1)[0]


@pytest.fixture
def listener(port: int) -> Iterator[RankListener]:
    waiting = RankListener(HERE, port, token=TOKEN, ranks=2)
    yield waiting
    waiting.close()


def test_events_of_a_rank_arrive_and_its_end_without_a_word_is_a_loss(listener, port):
    events: EventQueue = queue.Queue()
    there = connect_to_first(HERE, port, token=TOKEN, rank=1, within=10)
    here = RankConnection(1, "node", listener.take(1, within=10), events, silence=60)
    there.send(LogLines("trainer.0", "a line\n"))
    assert events.get(timeout=10) == (1, LogLines("trainer.0", "a line\n"))
    here.stop()
    assert there.reader.readline() == b'{"type":"stop"}\n'
    there.close()
    rank, lost = events.get(timeout=10)
    assert (rank, type(lost)) == (1, ConnectionLost)
    assert lost.for_good
    assert here.close(within=10)


def test_a_rank_that_is_done_is_not_lost(listener, port):
    events: EventQueue = queue.Queue()
    there = connect_to_first(HERE, port, token=TOKEN, rank=0, within=10)
    here = RankConnection(0, "node", listener.take(0, within=10), events, silence=60)
    there.send(RunnerDone())
    there.close()
    assert here.close(within=10)
    assert events.get(timeout=10) == (0, RunnerDone())
    assert events.empty()


def test_a_wrong_token_is_refused_on_both_sides(listener, port):
    with pytest.raises(PeerError, match="is not rank 0"):
        connect_to_first(HERE, port, token="another token of another job", rank=1, within=10)  # noqa: S106
    with pytest.raises(PeerError, match="rank 1 has not connected"):
        listener.take(1, within=0.2)
    # Who answers to a rank must know the token too.
    with socket.create_server((HERE, 0)) as false_first:
        other = false_first.getsockname()[1]
        false_first.settimeout(10)

        def answer() -> None:
            connected, _ = false_first.accept()
            with connected:
                connected.sendall(b'{"nonce":"00"}\n')
                connected.recv(1000)
                connected.sendall(b'{"proof":"00"}\n')

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(PeerError, match="does not know the job's token"):
            connect_to_first(HERE, other, token=TOKEN, rank=1, within=10)


def test_a_stranger_who_says_nothing_keeps_nobody_waiting(listener, port):
    with socket.create_connection((HERE, port)), socket.create_connection((HERE, port)) as noisy:
        noisy.sendall(b"x" * 5000)
        there = connect_to_first(HERE, port, token=TOKEN, rank=1, within=10)
        assert listener.take(1, within=10)
        # A rank connects once: a second one of its number is turned away.
        with pytest.raises(PeerError, match="is not rank 0"):
            connect_to_first(HERE, port, token=TOKEN, rank=1, within=10)
        there.close()


def test_no_rank_0_is_said_with_what_to_do(port):
    with pytest.raises(PeerError, match=r"cannot reach rank 0 at 127\.0\.0\.1.*cluster\.hosts\[\]\.address"):
        connect_to_first(HERE, port, token=TOKEN, rank=3, within=0.1)
