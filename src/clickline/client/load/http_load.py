"""The load generator over HTTP: many requests to a predictor over a number of connections, and the time of each.

Closed loop: a connection sends its next request when it has its answer. Open loop: requests fall due by a Poisson
process, whether or not earlier ones are answered, and wait for a free connection if there is none; a request's time
counts from when it was due. A closed loop slows down with a slow server and so hides what a user would wait; the open
one does not. All connections are served by one thread with select(2), whose clock is fine enough for arrivals; threads
would measure each other. grpc_load.py does the same over gRPC.
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

from clickline.client.http_requests import LostConnection, Reply, ReplyParser, ServerAddress, check
from clickline.client.payloads import Prediction
from clickline.errors import PeerError
from clickline.net.request_errors import RequestError

OnProgress = Callable[[int, float], None]
"""Called now and then with the number of requests that are done, and the share of the run that is over."""
_REPORT_EVERY = 0.1
_PAUSE = 0.1
"""Seconds until a server that refuses connections is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """How many requests are sent, how fast, and for how long."""

    connections: int = 1
    rate: float | None = None
    """Requests per second, for an open loop; None for a closed one."""
    requests: int | None = None
    seconds: float | None = None
    """The run ends with the first of the two limits; one must be given."""
    seed: int = 0
    timeout: float = 10.0
    """Seconds for one reply, and for requests that are still under way at the end."""

    def due(self) -> Iterator[float]:
        """When requests of an open loop are due, in seconds after the start."""
        random, now = np.random.default_rng(self.seed), 0.0
        while True:
            # 1024 at a time: a call of numpy for each arrival would take time from the loop that measures.
            for pause in random.exponential(1 / (self.rate or 1.0), 1024).tolist():
                now += pause
                yield now

    def share(self, done: int, seconds: float) -> float:
        shares = [done / self.requests if self.requests else 0.0, seconds / self.seconds if self.seconds else 0.0]
        return min(1.0, max(shares))


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """One request, ready to be sent, and how its reply is read."""

    request: bytes
    rows: int
    read: Callable[[Reply], Prediction]


@dataclass(slots=True)
class LoadResult:
    """Times, errors and versions of a run."""

    taken: list[float] = field(default_factory=list)
    """Seconds of each request that was answered."""
    errors: Counter[str] = field(default_factory=Counter)
    """How many requests failed, by reason."""
    versions: Counter[int] = field(default_factory=Counter)
    """How many replies each version gave."""
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


class _Connection:
    """One connection, and the request that is under way on it."""

    def __init__(self, address: ServerAddress, timeout: float, tls: ssl.SSLContext | None) -> None:
        made = socket.create_connection((address.host, address.port), timeout)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = made if tls is None else tls.wrap_socket(made, server_hostname=address.host)
        self.replies = ReplyParser()
        self.request: PreparedRequest | None = None
        self.since = self.sent = 0.0

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, request: PreparedRequest, since: float) -> None:
        self.request, self.since, self.sent = request, since, time.perf_counter()
        self.socket.sendall(request.request)

    def receive(self) -> Reply | None:
        reply = self.replies.feed(self.socket.recv(65536))
        # select sees only the socket: bytes that TLS has decrypted already must be read now, or they would wait for the
        # next segment.
        while reply is None and isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
            reply = self.replies.feed(self.socket.recv(65536))
        return reply


class HttpLoad:
    """One run over HTTP."""

    def __init__(
        self,
        address: ServerAddress,
        requests: Sequence[PreparedRequest],
        load: LoadPlan,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address, self._requests, self._load, self._tls = address, requests, load, tls
        self._free: list[_Connection] = []
        self._busy: list[_Connection] = []
        self._waiting: deque[float] = deque()
        """When the requests of an open loop were due that have no connection yet."""
        self._issued, self._down_until = 0, 0.0
        self.result = LoadResult()

    def run(self, on_progress: OnProgress | None = None) -> LoadResult:
        """Send requests until the end. Every connection sends one before, which is not measured."""
        if self._load.requests is None and self._load.seconds is None:
            raise ValueError("a load needs requests or seconds, or it never ends")
        try:
            self._warm_up()
            self._run(on_progress)
        finally:
            for connection in (*self._free, *self._busy):
                connection.socket.close()
        return self.result

    def _warm_up(self) -> None:
        for number in range(self._load.connections):
            try:
                connection = _Connection(self._address, self._load.timeout, self._tls)
                self._free.append(connection)
                connection.send(self._requests[number % len(self._requests)], 0.0)
                reply = None
                while reply is None:
                    reply = connection.receive()
                check(reply)
            except OSError as error:
                why = error.strerror or error
                raise PeerError(f"{self._address} cannot be reached: {why}; is `clickline serve` running?") from None

    def _run(self, on_progress: OnProgress | None) -> None:
        load, began = self._load, time.perf_counter()
        end = began + load.seconds if load.seconds is not None else float("inf")
        due = (began + at for at in load.due()) if load.rate else None
        following = next(due) if due else began
        reported = began
        while True:
            now = time.perf_counter()
            if due is None:  # closed loop: a connection sends its next request when it has its reply
                over = now >= end or self._all_issued()
            else:  # open loop: requests fall due by the clock, however many are not answered yet
                while following <= now and following < end and not self._all_issued():
                    self._waiting.append(following)
                    following = next(due)
                over = following >= end or self._all_issued()
            # After the last request, a lost connection is replaced only if a request still waits for one.
            if not over or self._waiting:
                self._reopen(now)
            self._send_due(over, closed=due is None)
            # At the end, replies are still awaited, but not a server that does not even accept connections.
            if over and not self._busy and (not self._waiting or self._down_until > now):
                break
            if now - reported >= _REPORT_EVERY:
                reported = now
                self._drop_late(now)
                if on_progress is not None:
                    on_progress(self.result.done, load.share(self.result.done, now - began))
                if now > end + load.timeout:
                    break
            # In an open loop until the next request is due: its time must not depend on when replies come.
            self._wait(now, following if due is not None and not over else now + _REPORT_EVERY)
        self.result.seconds = time.perf_counter() - began
        self.result.errors["never_sent"] += len(self._waiting)
        self.result.errors += Counter()  # drops the reasons that count zero

    def _all_issued(self) -> bool:
        return self._load.requests is not None and self._issued + len(self._waiting) >= self._load.requests

    def _send_due(self, over: bool, *, closed: bool) -> None:
        while self._free:
            if closed:
                if over or self._all_issued():
                    return
                since = time.perf_counter()
            elif self._waiting:
                since = self._waiting.popleft()
            else:
                return
            connection = self._free.pop()
            self._busy.append(connection)
            try:
                connection.send(self._requests[self._issued % len(self._requests)], since)
            except OSError:
                self._drop(connection, "connection")
            # Also if sending failed: the failure is the outcome of this request, which is not sent again.
            self._issued += 1

    def _wait(self, now: float, until: float) -> None:
        if not self._busy:
            time.sleep(max(0.0, min(until - now, _REPORT_EVERY)))
            return
        for connection in select.select(self._busy, (), (), max(0.0, min(until - now, _REPORT_EVERY)))[0]:
            try:
                reply = connection.receive()
            except (OSError, LostConnection):
                self._drop(connection, "connection")
                continue
            if reply is not None:
                self._take(connection, reply)

    def _take(self, connection: _Connection, reply: Reply) -> None:
        seconds, request = time.perf_counter() - connection.since, connection.request
        self._busy.remove(connection)
        if reply.keep:
            self._free.append(connection)
        else:
            connection.socket.close()
        try:
            check(reply)
            assert request is not None  # noqa: S101 a connection that receives has sent
            self.result.answered(request.read(reply), seconds, request.rows)
        except RequestError as error:
            self.result.errors[error.reason] += 1
        except PeerError:
            self.result.errors["no_prediction"] += 1

    def _drop(self, connection: _Connection, reason: str) -> None:
        connection.socket.close()
        self._busy.remove(connection)
        self.result.errors[reason] += 1

    def _drop_late(self, now: float) -> None:
        # From `sent`, not `since`: a request that had to wait for a connection gets the full timeout as well.
        for connection in [connection for connection in self._busy if now - connection.sent > self._load.timeout]:
            self._drop(connection, "timeout")

    def _reopen(self, now: float) -> None:
        """Replace connections that were closed; a server that refuses them is tried again after a pause."""
        while len(self._free) + len(self._busy) < self._load.connections and now >= self._down_until:
            try:
                self._free.append(_Connection(self._address, self._load.timeout, self._tls))
            except OSError:
                self._down_until = now + _PAUSE
                self.result.errors["refused"] += 1  # the request that would have been sent now has no reply
