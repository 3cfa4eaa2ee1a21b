"""A proxy between trainers and servers that drops connections, delays, cuts, duplicates and garbles, by chance."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Chances:
    """Of each fault, for every chunk that passes."""

    drop: float = 0.0
    delay: float = 0.0
    cut: float = 0.0
    """The first half of the chunk passes, then both ends are closed."""
    duplicate: float = 0.0
    garble: float = 0.0
    cut_reply: float = 0.0
    """A reply is taken away and both ends closed: the request was executed, and its sender does not know."""


class UnreliableProxy:
    """Listens at `address` for `target`. What it does follows from the seed and the order in which chunks come."""

    def __init__(self, target: str, chances: Chances, *, seed: int) -> None:
        self._target, self._chances = target, chances
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.done: Counter[str] = Counter()
        """Faults by kind."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp:127.0.0.1:{self._listening.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self._down = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self._down:
                    client.close()
                    continue
                host, port = self._target[4:].rsplit(":", 1)
                try:
                    server = socket.create_connection((host, int(port)))
                except OSError:  # not up yet, or just killed
                    client.close()
                    continue
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [client, server]
                for source, sink, kind in ((client, server, "request"), (server, client, "reply")):
                    threading.Thread(target=self._pump, args=(source, sink, kind), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, kind: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                fault = self._choose(kind, data)
                if fault in ("drop", "cut_reply"):
                    break
                if fault == "delay":
                    time.sleep(0.05)
                elif fault == "cut":
                    sink.sendall(data[: len(data) // 2])
                    break
                elif fault == "duplicate":
                    sink.sendall(data)
                elif fault == "garble":
                    middle = len(data) // 2
                    data = data[:middle] + bytes([data[middle] ^ 32]) + data[middle + 1 :]
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()  # else what its sender still sends is taken until the buffer is full, and never refused

    def _choose(self, kind: str, data: bytes) -> str | None:
        with self._lock:
            draw = self._random.random()
            for name, chance in vars(self._chances).items():
                if name == "cut_reply" and kind != "reply":
                    continue
                draw -= chance
                if draw < 0:
                    self.done[name] += 1
                    return name
        return None

    def retarget(self, target: str) -> None:
        """Lead to another from here on, as the name of a service does whose process was moved to another host."""
        self._target = target
        self._cut(self._sockets)

    def interrupt(self) -> None:
        """Break all connections and let no other come about, until `restore`."""
        self._down = True
        self._cut(self._sockets)

    def restore(self) -> None:
        self._down = False

    def close(self) -> None:
        self._cut([self._listening, *self._sockets])

    def _cut(self, sockets: list[socket.socket]) -> None:
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
