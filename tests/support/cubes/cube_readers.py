"""Readers that never stop asking, and what they hold against each answer.

A row tells which version wrote it and for which key (`version_stores.rows_of`), so a batch is judged by its content and
not by what the client says of it: rows that are not those of the version it names are *wrong*, and a batch that no
single version explains, although each of its rows is of some version, is *mixed*.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.versions.version_stores import rows_of

Keys = NDArray[np.uint64]


class Known:
    """What each version holds: the version that wrote the row of each key, 0 where there is none."""

    def __init__(self, look: Callable[[int], NDArray[np.uint32]], *, highest: int) -> None:
        self._look, self.highest = look, highest
        self._seen: dict[int, NDArray[np.uint32]] = {}

    @classmethod
    def of_store(cls, store: Any, *, highest: int = 1000, table: str = "embedding") -> Known:
        def look(version: int) -> NDArray[np.uint32]:
            found = np.zeros(highest + 1, np.uint32)
            held = store.expected[version][table]
            found[list(held)] = list(held.values())
            return found

        return cls(look, highest=highest)

    @classmethod
    def of_files(cls, directory: Path, *, highest: int) -> Known:
        """As `save` wrote them, perhaps in another process."""
        return cls(lambda version: np.load(directory / f"{version}.npy"), highest=highest)

    def save(self, version: int, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        np.save(directory / f"{version}.npy", self.writers(version))

    def writers(self, version: int) -> NDArray[np.uint32]:
        if version not in self._seen:
            self._seen[version] = self._look(version)
        return self._seen[version]

    def writers_of(self, version: int, keys: Keys) -> NDArray[np.uint32]:
        return self.writers(version)[keys.astype(np.int64)]

    def explains(self, version: int, keys: Keys, wrote: NDArray[np.uint32]) -> bool:
        try:
            return np.array_equal(self.writers_of(version, keys), wrote)
        except (KeyError, OSError):
            return False


def judge(known: Known, version: int, keys: Keys, status: NDArray[np.uint8], rows: NDArray[np.float32]) -> Counter[str]:
    """What is wrong with a batch that says it is of `version`: nothing, if the result is empty."""
    wrote = known.writers_of(version, keys)
    there = wrote > 0
    expected = np.where(there[:, None], rows_of(keys, wrote), np.float32(0))
    right = ((status == 0) == there) & (rows == expected).all(axis=1)
    if right.all():
        return Counter()
    base = rows_of(keys, 0)
    origin = np.where(status == 0, np.rint((rows[:, 0] - base[:, 0]) / 1000), 0).astype(np.int64)
    readable = (status != 0) | ((origin > 0) & (rows == rows_of(keys, origin)).all(axis=1))
    candidates = range(1, max(version, int(origin.max(initial=0))) + 16)
    explained = readable.all() and any(known.explains(each, keys, origin.astype(np.uint32)) for each in candidates)
    mixed = bool(readable.all()) and not explained
    return Counter(wrong_rows=int((~right).sum()), mixed=int(mixed), misnamed=int(explained))


class BatchReader(threading.Thread):
    """Asks `get` for batches until it is stopped, and judges each."""

    def __init__(
        self,
        get: Callable[[Keys], Any],
        known: Known,
        *,
        pool: Keys,
        always: Keys,
        size: int = 40,
        seed: int = 0,
        pause: float = 0.0,
    ) -> None:
        """`always`: keys that are in each batch, such as those that every version writes."""
        super().__init__(daemon=True)
        self._get, self._known, self._pool, self._always = get, known, pool, always
        self._size, self._seed, self._pause = size, seed, pause
        self._over = threading.Event()
        self.counts: Counter[str] = Counter(batches=0, rows=0, mixed=0, wrong_rows=0, misnamed=0, failed=0)
        self.versions: Counter[int] = Counter()
        self.slowest = 0.0
        self.trouble: list[str] = []

    def run(self) -> None:
        random = np.random.default_rng(self._seed)
        while not self._over.is_set():
            keys = random.permutation(np.concatenate([self._always, random.choice(self._pool, self._size)]))
            began = time.monotonic()
            try:
                found = self._get(keys)
                trouble = found.errors if found.code else []
            except Exception as error:  # whatever it is, it is a request that failed
                found, trouble = None, [repr(error)]
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.counts["batches"] += 1
            if found is None or found.code:
                self.counts["failed"] += 1
                self.trouble += [f"{time.strftime('%H:%M:%S')} {each}" for each in trouble]
            else:
                self._judge(keys, found)
            if self._pause:
                self._over.wait(self._pause)

    def _judge(self, keys: Keys, found: Any) -> None:
        self.counts["rows"] += len(keys)
        self.versions[found.version] += 1
        wrong = judge(self._known, found.version, keys, found.status, found.decoded())
        if wrong:
            self.counts.update(wrong)
            self.trouble.append(f"{time.strftime('%H:%M:%S')} version {found.version}: {dict(wrong)}")

    def end(self) -> None:
        self._over.set()
        self.join()

    def stop(self) -> str:
        """End it. Nothing may have been wrong."""
        self.end()
        return self.said()

    def said(self) -> str:
        counts = self.counts
        told = (
            f"{counts['batches']} batches, {counts['mixed']} mixed, {counts['wrong_rows']} wrong rows, "
            f"{counts['failed']} failed, {len(self.versions)} versions seen, slowest {self.slowest:.3f} s"
        )
        bad = {name: counts[name] for name in ("mixed", "wrong_rows", "misnamed", "failed") if counts[name]}
        assert not bad, f"{told}: {self.trouble[:5]}"
        return told
