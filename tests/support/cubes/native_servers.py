"""Cube servers as processes, told what to do by lines of JSON; and small tables whose rows say what they are."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline._native import CubeServer, Dictionary, Layers, owner_ranges, write_dictionary

TOKEN = b"of the cube"
JOB = "ads"


def write_table(path: Path, version: int, keys: int, *, shard: int = 0, shards: int = 1) -> Path:
    """Row of key k in version v: [v, k, v + k, 0] as floats."""
    numbers = np.arange(keys, dtype=np.uint64)
    rows = np.zeros((keys, 4), np.float32)
    rows[:, 0] = version
    rows[:, 1] = numbers
    rows[:, 2] = rows[:, 0] + rows[:, 1]
    first, last = owner_ranges(shards)[shard]
    buckets = (numbers * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(52)
    own = (buckets >= first) & (buckets < last)
    write_dictionary(
        str(path),
        numbers[own],
        np.ascontiguousarray(rows[own]).view(np.uint8),
        dtype=1,
        dim=4,
        first_bucket=first,
        last_bucket=last,
    )
    return path


def floats(values: NDArray[np.uint8]) -> NDArray[np.float32]:
    return values.view(np.float32)


class ServerProcess:
    def __init__(self, address: str = "tcp:127.0.0.1:0") -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.address = self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        if isinstance(answer, dict) and "error" in answer:
            raise ValueError(answer["error"])
        return answer

    def tell(self, what: str, *arguments: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([what, *arguments]) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def load(self, version: int, **tables: Path) -> None:
        self.tell("load", version, {name: str(path) for name, path in tables.items()})

    def switch(self, version: int, number: int) -> None:
        self.tell("switch", version, number)

    def stop(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)  # until all its threads have stopped

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def main() -> None:
    server = CubeServer(sys.argv[1], name="cube", job=JOB, token=TOKEN)
    print(json.dumps(server.address), flush=True)
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        try:
            if what == "load":
                version, tables = arguments
                server.load(version, {name: Layers([Dictionary(path)]) for name, path in tables.items()})
                answer = None
            else:
                answer = getattr(server, what)(*arguments)
        except ValueError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
