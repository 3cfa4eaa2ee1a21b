"""A load generator: many requests to a predictor over a number of connections, and how long each one took.

Closed loop: a connection sends its next request when it has its answer. Open loop: requests fall due by a Poisson
process, whether or not earlier ones are answered, and wait for a free connection if there is none; a request's time
counts from when it was due. A closed loop slows down with a slow server and so hides what a user would wait; the open
one does not. All connections are served by one thread with select(2), whose clock is fine enough for arrivals; threads
would measure each other. load_grpc.py does the same for gRPC.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from clickline.client.http_requests import Address, LostConnection, Replies, Reply, check
from clickline.client.payloads import Prediction
from clickline.errors import PeerError
from clickline.net.request_errors import RequestError

Told = Callable[[int, float], None]
"""Is told from time to time how many requests are done, and which share of the run is over."""
_TELL_EVERY = 0.1
_PAUSE = 0.1
"""Seconds until a server that refuses connections is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much to ask, and for how long."""

    connections: int = 1
    rate: float | None = None
    """Requests per second, for an open loop; None for a closed one."""
    requests: int | None = None
    seconds: float | None = None
    """It ends with whichever of the two comes first; one must be given."""
    seed: int = 0
    timeout: float = 10.0
    """For one answer, and for what is still under way at the end."""

    def due(self) -> Iterator[float]:
        """When requests of an open loop are due, in seconds after the start."""
        random, now = np.random.default_rng(self.seed), 0.0
        while True:
            for pause in random.exponential(1 / (self.rate or 1.0), 1024).tolist():
                now += pause
                yield now

    def share(self, done: int, seconds: float) -> float:
        shares = [done / self.requests if self.requests else 0.0, seconds / self.seconds if self.seconds else 0.0]
        return min(1.0, max(shares))


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, ready to be sent, and how its answer is read."""

    request: bytes
    rows: int
    read: Callable[[Reply], Prediction]


@dataclass(slots=True)
class Tally:
    """What came of it."""

    taken: list[float] = field(default_factory=list)
    """Seconds of each request that was answered."""
    errors: Counter[str] = field(default_factory=Counter)
    """By reason."""
    versions: Counter[int] = field(default_factory=Counter)
    """Answers of each."""
    rows: int = 0
    seconds: float = 0.0

    def answered(self, prediction: Prediction, seconds: float, rows: int) -> None:
        if len(prediction.probabilities) != rows:
            self.errors["short_answer"] += 1
            return
        self.taken.append(seconds)
        self.versions[prediction.version] += 1
        self.rows += rows

    @property
    def done(self) -> int:
        return len(self.taken) + self.errors.total()


class _Line:
    """One connection, and the request that is under way on it."""

    def __init__(self, address: Address, timeout: float, tls: ssl.SSLContext | None) -> None:
        made = socket.create_connection((address.host, address.port), timeout)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = made if tls is None else tls.wrap_socket(made, server_hostname=address.host)
        self.replies = Replies()
        self.ask: Ask | None = None
        self.since = self.sent = 0.0

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, ask: Ask, since: float) -> None:
        self.ask, self.since, self.sent = ask, since, time.perf_counter()
        self.socket.sendall(ask.request)

    def receive(self) -> Reply | None:
        reply = self.replies.feed(self.socket.recv(65536))
        while reply is None and isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
            reply = self.replies.feed(self.socket.recv(65536))
        return reply


class HttpLoad:
    """One run over HTTP."""

    def __init__(self, address: Address, asks: Sequence[Ask], load: Load, *, tls: ssl.SSLContext | None = None) -> None:
        self._address, self._asks, self._load, self._tls = address, asks, load, tls
        self._free: list[_Line] = []
        self._busy: list[_Line] = []
        self._waiting: deque[float] = deque()
        """Requests of an open loop that are due and have no connection yet: when they were."""
        self._issued, self._down_until = 0, 0.0
        self.tally = Tally()

    def run(self, tell: Told | None = None) -> Tally:
        """Ask until the end; every connection has asked once before, which is not counted."""
        if self._load.requests is None and self._load.seconds is None:
            raise ValueError("a load needs requests or seconds, or it never ends")
        try:
            self._warm_up()
            self._run(tell)
        finally:
            for line in (*self._free, *self._busy):
                line.socket.close()
        return self.tally

    def _warm_up(self) -> None:
        for number in range(self._load.connections):
            try:
                line = _Line(self._address, self._load.timeout, self._tls)
                self._free.append(line)
                line.send(self._asks[number % len(self._asks)], 0.0)
                reply = None
                while reply is None:
                    reply = line.receive()
                check(reply)
            except OSError as error:
                said = error.strerror or error
                raise PeerError(f"{self._address} cannot be reached: {said}; is `clickline serve` running?") from None

    def _run(self, tell: Told | None) -> None:
        load, began = self._load, time.perf_counter()
        end = began + load.seconds if load.seconds is not None else float("inf")
        due = (began + at for at in load.due()) if load.rate else None
        following = next(due) if due else began
        told = began
        while True:
            now = time.perf_counter()
            if due is None:
                over = now >= end or self._all_issued()
            else:
                while following <= now and following < end and not self._all_issued():
                    self._waiting.append(following)
                    following = next(due)
                over = following >= end or self._all_issued()
            if not over or self._waiting:
                self._reopen(now)
            self._hand_out(over, closed=due is None)
            if over and not self._busy and (not self._waiting or self._down_until > now):
                break
            if now - told >= _TELL_EVERY:
                told = now
                self._drop_late(now)
                if tell is not None:
                    tell(self.tally.done, load.share(self.tally.done, now - began))
                if now > end + load.timeout:
                    break
            self._wait(now, following if due is not None and not over else now + _TELL_EVERY)
        self.tally.seconds = time.perf_counter() - began
        self.tally.errors["never_sent"] += len(self._waiting)
        self.tally.errors += Counter()  # drops what is zero

    def _all_issued(self) -> bool:
        return self._load.requests is not None and self._issued + len(self._waiting) >= self._load.requests

    def _hand_out(self, over: bool, *, closed: bool) -> None:
        while self._free:
            if closed:
                if over or self._all_issued():
                    return
                since = time.perf_counter()
            elif self._waiting:
                since = self._waiting.popleft()
            else:
                return
            line = self._free.pop()
            self._busy.append(line)
            try:
                line.send(self._asks[self._issued % len(self._asks)], since)
            except OSError:
                self._drop(line, "connection")
            self._issued += 1

    def _wait(self, now: float, until: float) -> None:
        if not self._busy:
            time.sleep(max(0.0, min(until - now, _TELL_EVERY)))
            return
        for line in select.select(self._busy, (), (), max(0.0, min(until - now, _TELL_EVERY)))[0]:
            try:
                reply = line.receive()
            except (OSError, LostConnection):
                self._drop(line, "connection")
                continue
            if reply is not None:
                self._take(line, reply)

    def _take(self, line: _Line, reply: Reply) -> None:
        seconds, ask = time.perf_counter() - line.since, line.ask
        self._busy.remove(line)
        if reply.keep:
            self._free.append(line)
        else:
            line.socket.close()
        try:
            check(reply)
            assert ask is not None  # noqa: S101 a connection that receives has sent
            self.tally.answered(ask.read(reply), seconds, ask.rows)
        except RequestError as error:
            self.tally.errors[error.reason] += 1
        except PeerError:
            self.tally.errors["no_prediction"] += 1

    def _drop(self, line: _Line, reason: str) -> None:
        line.socket.close()
        self._busy.remove(line)
        self.tally.errors[reason] += 1

    def _drop_late(self, now: float) -> None:
        for line in [line for line in self._busy if now - line.sent > self._load.timeout]:
            self._drop(line, "timeout")

    def _reopen(self, now: float) -> None:
        """Connections that were closed are replaced; a server that is away is given a moment."""
        while len(self._free) + len(self._busy) < self._load.connections and now >= self._down_until:
            try:
                self._free.append(_Line(self._address, self._load.timeout, self._tls))
            except OSError:
                self._down_until = now + _PAUSE
                self.tally.errors["refused"] += 1  # who would have asked now has no answer
