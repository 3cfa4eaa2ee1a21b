"""Redis, asked for a million keys of 64 bytes: through redis-py with hiredis, or by a bare socket that decodes nothing.

redis_get.py fill PORT KEYS VALUE_BYTES             sets them; prints what one key takes in memory
redis_get.py get PORT KEYS BATCH SECONDS            MGET through redis-py
redis_get.py bare PORT KEYS BATCH SECONDS VALUE_BYTES   the same bytes over a socket, replies counted, not decoded
"""

from __future__ import annotations

import json
import random
import socket
import sys
import time
from collections.abc import Callable

import redis


def name(number: int) -> bytes:
    return number.to_bytes(8, "little")


def fill(port: int, keys: int, size: int) -> dict[str, float]:
    client = redis.Redis(port=port)
    before = client.info("memory")["used_memory"]
    for first in range(0, keys, 10_000):
        pipe = client.pipeline(transaction=False)
        for number in range(first, min(first + 10_000, keys)):
            pipe.set(name(number), number.to_bytes(8, "little") * (size // 8))
        pipe.execute()
    return {"bytes_per_key": (client.info("memory")["used_memory"] - before) / keys}


def measure(ask: Callable[[list[int]], None], keys: int, batch: int, seconds: float) -> dict[str, float]:
    draw = random.Random(1)
    batches = [[draw.randrange(keys) for _ in range(batch)] for _ in range(max(50, 20_000 // batch))]
    times = []
    for one in batches[:20]:
        ask(one)
    began = last = time.perf_counter()
    number = 0
    while last - began < seconds:
        ask(batches[number % len(batches)])
        number += 1
        now = time.perf_counter()
        times.append(now - last)
        last = now
    times.sort()
    return {
        "keys_per_second": number * batch / (last - began),
        "p50": times[len(times) // 2] * 1e6,
        "p99": times[int(len(times) * 0.99)] * 1e6,
    }


def get(port: int, keys: int, batch: int, seconds: float) -> dict[str, float]:
    client = redis.Redis(port=port)

    def ask(numbers: list[int]) -> None:
        values = client.mget([name(number) for number in numbers])
        if len(values) != len(numbers) or values[0][:8] != name(numbers[0]):
            sys.exit("Redis gave another value than was set")

    return measure(ask, keys, batch, seconds)


def bare(port: int, keys: int, batch: int, seconds: float, size: int) -> dict[str, float]:
    link = socket.create_connection(("127.0.0.1", port))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wanted = len(f"*{batch}\r\n") + batch * (len(f"${size}\r\n") + size + 2)
    place = memoryview(bytearray(wanted))

    def ask(numbers: list[int]) -> None:
        request = b"*%d\r\n$4\r\nMGET\r\n" % (batch + 1) + b"".join(b"$8\r\n%b\r\n" % name(n) for n in numbers)
        link.sendall(request)
        got = 0
        while got < wanted:
            got += link.recv_into(place[got:])

    return measure(ask, keys, batch, seconds)


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    numbers = [float(part) if "." in part else int(part) for part in rest]
    print(json.dumps({"fill": fill, "get": get, "bare": bare}[verb](*numbers)))  # type: ignore[operator]
