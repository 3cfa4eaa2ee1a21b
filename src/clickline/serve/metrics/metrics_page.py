"""The page that Prometheus scrapes: the counters of all workers together.

Every worker keeps its counters in a file of the same directory (`counters`), so each of them gives the same page. The
age of the data is not counted: it is computed for each scrape, from the versions that this worker serves.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path

from clickline.serve.metrics.counters import METRICS, Metric, metric_of, sum_of_workers, values_of

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
AGE = "clickline_data_age_seconds"


def page(directory: Path, *, times: Mapping[str, float]) -> bytes:
    """The text. `times`: when the newest data behind each model's version is from, in seconds since 1970."""
    totals = sum_of_workers(sorted(directory.glob("*.counts")))
    now = time.time()
    totals[AGE] = {model: [max(0.0, now - moment)] for model, moment in times.items()}
    lines: list[str] = []
    for name in (*METRICS, *sorted(totals.keys() - METRICS.keys())):
        labelled = totals.get(name, {})
        metric = metric_of(name, "histogram" if any(len(own) > 1 for own in labelled.values()) else "counter")
        lines.append(f"# HELP {name} {metric.text or name}.")
        lines.append(f"# TYPE {name} {metric.kind}")
        if not metric.labels and metric.kind == "counter":  # so that a rate can be taken from the start on
            labelled = labelled or {"": [0.0]}
        for label, numbers in sorted(labelled.items()):
            lines += _lines(name, metric, label, numbers)
    return ("\n".join(lines) + "\n").encode()


def _lines(name: str, metric: Metric, label: str, numbers: list[float]) -> Iterable[str]:
    named = zip(metric.labels, values_of(label), strict=False)
    own = ",".join(f'{name}="{_escaped(value)}"' for name, value in named if value)
    if metric.kind != "histogram":
        yield f"{name}{{{own}}} {_number(numbers[0])}" if own else f"{name} {_number(numbers[0])}"
        return
    counts = list(accumulate(numbers[:-1]))
    for bound, count in zip((*map(_number, metric.buckets), "+Inf"), counts, strict=True):
        yield f'{name}_bucket{{{own + "," if own else ""}le="{bound}"}} {_number(count)}'
    braces = f"{{{own}}}" if own else ""
    yield f"{name}_sum{braces} {numbers[-1]!r}"
    yield f"{name}_count{braces} {_number(counts[-1])}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
