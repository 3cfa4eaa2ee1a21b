"""Latencies in few numbers, and as a histogram of text."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

PERCENTILES = (50, 80, 90, 99, 99.9)
_STEPS = "▏▎▍▌▋▊▉█"


def summary(seconds: ArrayLike) -> dict[str, float | None]:
    """Average, percentiles and the longest, in microseconds; None where nothing was measured."""
    times = np.asarray(seconds, np.float64) * 1e6
    names = ["avg", *(f"{p:g}" for p in PERCENTILES), "max"]
    if not len(times):
        return dict.fromkeys(names)
    values = [times.mean(), *np.percentile(times, PERCENTILES), times.max()]
    return {name: round(float(value), 1) for name, value in zip(names, values, strict=True)}


def buckets(seconds: ArrayLike, *, most: int = 20) -> list[tuple[float, float, int]]:
    """(from, to, how many): at most `most` of them, each as much wider than the last: latencies have long tails."""
    times = np.asarray(seconds, np.float64)
    if not len(times):
        return []
    # geomspace needs a start above 0.
    low, high = max(float(times.min()), 1e-9), float(times.max())
    steps = 1 if high <= low else min(most, max(2, math.ceil(math.log(high / low) / math.log(1.15))))
    edges: NDArray[np.float64] = np.geomspace(low, max(high, low), steps + 1)
    # A time of 0 lies below `low`, and rounded ends could exclude others: every time must be in a bucket.
    edges[0], edges[-1] = min(low, float(times.min())), max(high, low)
    counts = [len(times)] if steps == 1 else np.histogram(times, edges)[0].tolist()
    return [(float(edges[i]), float(edges[i + 1]), int(counts[i])) for i in range(steps)]


def picture(seconds: ArrayLike, *, width: int = 50) -> list[str]:
    """One line for each bucket: from when on, a bar, how many."""
    bars = buckets(seconds)
    highest = max((count for _, _, count in bars), default=0)
    return [f"{_time(start):>9}  {_bar(count / highest, width):<{width}}  {count:,}" for start, _, count in bars]


def _bar(share: float, width: int) -> str:
    eighths = math.ceil(share * width * 8)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_STEPS[rest - 1] if rest else "")


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
