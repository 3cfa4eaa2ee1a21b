"""What a run promises, what was seen, and what happened when: counts, broken promises, a timeline.

Everything here may be called from any thread.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections import Counter, defaultdict, deque
from pathlib import Path
from typing import Any

LAST_EVENTS = 25
"""Of the timeline, that a broken promise is shown with."""
_BREAKS_SHOWN = 40


class Books:
    """One for a run. `file` gets every event as a JSON line."""

    def __init__(self, seed: int, file: Path) -> None:
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        """By kind of fault: how often each outcome was seen."""
        self.recoveries: dict[str, list[float]] = defaultdict(list)
        """By kind of fault: seconds until what was hit was whole again."""
        self.broken: list[dict[str, Any]] = []
        """Promises that did not hold, each with the events before it."""
        self.notes: list[str] = []
        """What a reader of the result should know, such as kinds that could not be injected."""
        self._events: deque[str] = deque(maxlen=LAST_EVENTS)
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._began_at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        self._file = file.open("w", encoding="utf-8")

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    @property
    def faults(self) -> int:
        with self._lock:
            return sum(outcomes.total() for outcomes in self.outcomes.values())

    def event(self, text: str, **facts: Any) -> None:
        """One line of the timeline."""
        with self._lock:
            self._event(text, facts)

    def count(self, **counts: int) -> None:
        with self._lock:
            self.counts.update(counts)

    def injected(self, kind: str, outcome: str, *, recovery: float | None = None) -> None:
        """A fault is over."""
        with self._lock:
            self.outcomes[kind][outcome] += 1
            if recovery is not None:
                self.recoveries[kind].append(recovery)

    def promise_broken(self, promise: str, detail: str) -> None:
        """Note it with the last events before it. The run goes on: one broken promise may be of many."""
        with self._lock:
            self.counts[f"broken: {promise}"] += 1
            if len(self.broken) < _BREAKS_SHOWN:
                moment = {"promise": promise, "detail": detail, "at": round(self.elapsed, 2), "seed": self.seed}
                self.broken.append({**moment, "before": list(self._events)})
            self._event(f"PROMISE BROKEN: {promise}: {detail}", {})

    def result(self) -> dict[str, Any]:
        """All of it, for JSON."""
        with self._lock:
            return {
                "seed": self.seed,
                "began": self._began_at,
                "seconds": round(self.elapsed, 1),
                "faults": sum(outcomes.total() for outcomes in self.outcomes.values()),
                "kinds": {
                    kind: {"count": outcomes.total(), "outcomes": dict(outcomes), "recovery": self._recovery(kind)}
                    for kind, outcomes in sorted(self.outcomes.items())
                },
                "counts": dict(sorted(self.counts.items())),
                "notes": list(self.notes),
                "broken": list(self.broken),
            }

    def close(self) -> None:
        self._file.close()

    def _recovery(self, kind: str) -> dict[str, float] | None:
        taken = self.recoveries.get(kind)
        if not taken:
            return None
        return {"median": round(statistics.median(taken), 2), "longest": round(max(taken), 2)}

    def _event(self, text: str, facts: dict[str, Any]) -> None:
        line = f"{self.elapsed:8.2f}  {text}"
        self._events.append(line)
        if not self._file.closed:
            self._file.write(json.dumps({"at": round(self.elapsed, 3), "event": text, **facts}) + "\n")
            self._file.flush()
