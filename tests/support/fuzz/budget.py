"""How long parsers and services are fed with nonsense, and what no input may do: hang, or take memory without a limit.

A moment in CI, with the same inputs each time; as long as you like with CLICKLINE_FUZZ_EXAMPLES=100000, which is how
many inputs each test tries (docs/fuzzing.md).
"""

from __future__ import annotations

import atexit
import faulthandler
import functools
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hypothesis import HealthCheck, Phase, seed, settings

WANTED = os.environ.get("CLICKLINE_FUZZ_EXAMPLES")
SEED = int(os.environ.get("CLICKLINE_FUZZ_SEED", "20261116"))
SECONDS = 30
"""For one input, on a machine that has other things to do."""
STACKS = Path(tempfile.gettempdir()) / f"clickline-fuzz-{os.getpid()}.stacks"
LAST = STACKS.with_suffix(".input")
"""Where an input that hung can be found, and what it was at."""
MEMORY = 768 << 20
"""What one input may take beyond what is there before."""


@dataclass
class Tally:
    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    peak: int = 0


@atexit.register
def _tidy() -> None:  # not if it hung
    for path in (STACKS, LAST):
        path.unlink(missing_ok=True)


TALLIES: dict[str, Tally] = {}


def examples(default: int) -> int:
    return int(WANTED) if WANTED else default


def budgeted(test: Callable[..., Any] | None = None, *, default: int = 40) -> Callable[..., Any]:
    """The same examples each time; others, and more of them, on demand."""
    allowed = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    phases = [Phase.explicit, Phase.generate, Phase.shrink]

    def limited(function: Callable[..., Any]) -> Callable[..., Any]:
        chosen = settings(
            max_examples=examples(default), deadline=None, database=None, suppress_health_check=allowed, phases=phases
        )
        return seed(SEED)(chosen(function))

    return limited if test is None else limited(test)


@contextmanager
def bounded(name: str) -> Iterator[Tally]:
    """Around one input. One that hangs ends the process with all stacks shown; one too greedy gets a MemoryError."""
    tally = TALLIES.setdefault(name, Tally())
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=_stacks())
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    began = time.perf_counter()
    try:
        yield tally
    finally:
        tally.seconds += time.perf_counter() - began
        resource.setrlimit(resource.RLIMIT_AS, before)
        faulthandler.cancel_dump_traceback_later()
        tally.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@functools.cache
def _stacks() -> IO[str]:
    return STACKS.open("w", encoding="utf-8")


def judged(name: str, target: Callable[[bytes], bool], data: bytes) -> bool:
    """Give a target one input; whether it took it. What a target throws is a finding."""
    LAST.write_bytes(data)
    with bounded(name) as tally:
        accepted = target(data)
    tally.accepted += accepted
    tally.refused += not accepted
    return accepted
