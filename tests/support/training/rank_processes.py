"""Ranks as real processes, and what they leave behind."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.processes import ENVIRONMENT
from support.programs import PROGRAMS

QUIET = {**ENVIRONMENT, "TORCH_CPP_LOG_LEVEL": "ERROR"}  # or PyTorch warns of every connection that is cut
PROGRAM = PROGRAMS / "rank.py"


@dataclass(frozen=True)
class Done:
    """How a rank ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        assert self.code == 0, self.err
        return json.loads(self.out)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start_ranks(
    count: int, *arguments: str | Path, only: range | None = None, own: dict[int, list[str]] | None = None
) -> list[subprocess.Popen[str]]:
    """Start ranks 0 to count - 1, or some of them; `own` are arguments of single ones."""
    port = free_port()
    meeting = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), *map(str, arguments), *(own or {}).get(rank, [])],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**QUIET, **meeting, "RANK": str(rank)},
        )
        for rank in (only or range(count))
    ]


def ends(processes: list[subprocess.Popen[str]], *, within: float = 100) -> list[Done]:
    """How each ended; all must have within some seconds."""
    done = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=within)
            done.append(Done(process.returncode, out, err))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return done


def run_ranks(count: int, *arguments: str | Path) -> list[Done]:
    return ends(start_ranks(count, *arguments))


def lines_of(directory: Path, *, kind: str | None = None) -> list[dict[str, Any]]:
    """Lines of metrics without what depends on the clock."""
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    wanted = [line for line in lines if kind is None or line["kind"] == kind]
    return [{key: value for key, value in line.items() if key != "rows_per_second"} for line in wanted]
