"""Connections between rank 0 and all ranks, itself included, while the job runs: lines of JSON over TCP.

Both sides show that they know the job's token without sending it. Lines that follow are not signed: as between the
processes of a job, the network itself must be trusted.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from contextlib import suppress
from typing import BinaryIO

import msgspec

from clickline.errors import PeerError
from clickline.files.typed_json import decode_json
from clickline.launch.hosts.host_messages import LINE_LIMIT, LauncherMessage, RunnerDone, StopCommand, event_of, line_of
from clickline.launch.hosts.runner_connection import ConnectionLost, EventQueue
from clickline.net.tokens import proves_token, token_proof

_GREETING_LIMIT = 1024
_GREETING_SECONDS = 10.0
_A_RANK, _THE_FIRST = "clickline: a rank", "clickline: rank 0"
"""What is proven; different, so that nobody's proof can be sent back to it."""
_MOST_UNKNOWN = 64
"""Connections at a time that have not shown the token."""


class Challenge(msgspec.Struct, frozen=True):
    """The first line, of rank 0."""

    nonce: str


class RankProof(msgspec.Struct, frozen=True):
    """The answer: which rank this is, that it knows the token, and a challenge of its own."""

    rank: int
    nonce: str
    proof: str


class FirstRankProof(msgspec.Struct, frozen=True):
    """That rank 0 knows the token too."""

    proof: str


class RankSocket:
    """Both directions of a connection."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader: BinaryIO = connected.makefile("rb")
        self.writer: BinaryIO = connected.makefile("wb")

    def set_timeout(self, seconds: float | None) -> None:
        self._socket.settimeout(seconds)

    def fail_after(self, seconds: float) -> None:
        """Have the connection fail when the other side acknowledges nothing for so long."""
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))

    def send(self, message: msgspec.Struct) -> None:
        self.writer.write(line_of(message))
        self.writer.flush()

    def end(self) -> None:
        """End it for both sides; a thread that reads from it goes on."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.end()
        for part in (self.reader, self.writer, self._socket):
            with suppress(OSError, ValueError):
                part.close()


def connect_to_first(address: str, port: int, *, token: str, rank: int, within: float) -> RankSocket:
    """Connect a rank to rank 0. Raises PeerError."""
    until = time.monotonic() + within
    while True:
        try:
            connected = socket.create_connection((address, port), timeout=_GREETING_SECONDS)
            break
        except OSError as error:
            if time.monotonic() > until:
                raise PeerError(
                    f"rank {rank} cannot reach rank 0 at {address}, port {port}: {error}; if the other hosts reach it "
                    "at another address, name that by cluster.hosts[].address"
                ) from None
            time.sleep(0.2)
    line = RankSocket(connected)
    try:
        challenge = decode_json(line.reader.readline(_GREETING_LIMIT), Challenge)
        nonce = secrets.token_hex(16)
        line.send(RankProof(rank, nonce, token_proof(token, _A_RANK, str(rank), challenge.nonce, nonce)))
        answer = decode_json(line.reader.readline(_GREETING_LIMIT), FirstRankProof)
        if not proves_token(answer.proof, token, _THE_FIRST, challenge.nonce, nonce):
            raise OSError("it does not know the job's token")
    except (OSError, ValueError) as error:  # msgspec's error is a ValueError
        line.close()
        raise PeerError(f"rank {rank}: what answers at {address}, port {port} is not rank 0: {error}") from None
    line.set_timeout(None)
    return line


class RankListener:
    """Where rank 0 waits for all ranks."""

    def __init__(self, address: str, port: int, *, token: str, ranks: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.create_server((address, port), family=family, backlog=max(128, ranks))
        self._token, self._ranks = token, ranks
        self._lines: dict[int, RankSocket] = {}
        self._arrived = threading.Condition()
        self._unknown = threading.Semaphore(_MOST_UNKNOWN)
        threading.Thread(target=self._accept, name="clickline-ranks", daemon=True).start()

    def take(self, rank: int, *, within: float) -> RankSocket:
        """The connection of a rank, once. Raises PeerError if it does not come."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: rank in self._lines, within):
                raise PeerError(f"rank {rank} has not connected within {within:.0f} s")
            return self._lines[rank]

    def close(self) -> None:
        """Listen no longer, and end all connections."""
        # Wakes the thread that accepts, which `close` alone does not.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._arrived:
            for line in self._lines.values():
                line.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connected, _ = self._socket.accept()
                # Waits if too many have not shown the token yet: strangers cannot make us start threads without end.
                self._unknown.acquire()
                threading.Thread(target=self._greet, args=(connected,), daemon=True).start()

    def _greet(self, connected: socket.socket) -> None:
        connected.settimeout(_GREETING_SECONDS)
        line = RankSocket(connected)
        try:
            own = secrets.token_hex(16)
            line.send(Challenge(own))
            answer = decode_json(line.reader.readline(_GREETING_LIMIT), RankProof)
            known = proves_token(answer.proof, self._token, _A_RANK, str(answer.rank), own, answer.nonce)
            with self._arrived:
                # A second connection for a rank is refused, also with the token: the first one has its runner.
                if not known or not 0 <= answer.rank < self._ranks or answer.rank in self._lines:
                    line.close()
                    return
                line.send(FirstRankProof(token_proof(self._token, _THE_FIRST, own, answer.nonce)))
                line.set_timeout(None)
                self._lines[answer.rank] = line
                self._arrived.notify_all()
        except (OSError, ValueError):
            line.close()
        finally:
            self._unknown.release()


class RankConnection:
    """A rank's runner as rank 0 has it. The last event is RunnerDone or ConnectionLost."""

    def __init__(self, rank: int, name: str, line: RankSocket, events: EventQueue, *, silence: float) -> None:
        self._rank, self._name, self._line, self._events = rank, name, line, events
        line.fail_after(silence)
        self._done = threading.Event()
        threading.Thread(target=self._read, name=f"clickline-rank-{rank}", daemon=True).start()

    def stop(self) -> None:
        self.send(StopCommand())

    def close(self, *, within: float) -> bool:
        by_itself = self._done.wait(within)
        self._line.close()
        return by_itself

    def send(self, message: LauncherMessage) -> None:
        with suppress(OSError, ValueError):  # the thread that reads reports a connection that is lost
            self._line.send(message)

    def _read(self) -> None:
        reason, done = "it ended", False
        try:
            while not done and (content := self._line.reader.readline(LINE_LIMIT)):
                event = event_of(content)
                done = isinstance(event, RunnerDone)
                self._events.put((self._rank, event))
        except (OSError, ValueError) as error:
            reason = str(error)
        if not done:
            # For good: MPI starts no rank again, so there is nobody to wait for.
            lost = f"rank {self._rank} on {self._name} is gone ({reason})"
            self._events.put((self._rank, ConnectionLost(lost, for_good=True)))
        self._done.set()
