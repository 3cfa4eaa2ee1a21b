"""Clients that never stop asking the predictor, with retries and without, and recompute every answer."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from clickline import Client
from clickline.client.http_requests import LostConnection
from support.chaos.books import Books
from support.versions.model_versions import ModelVersions

_PAUSE = 0.02
_TIMEOUT = 20.0
_RETRIES = 20
Harmed = Callable[[float, float], str]
"""Given the beginning and the end of a request: what was away for all that time, or was killed in it; else nothing."""


class Questioner(threading.Thread):
    """`retries` False: each request is sent once, on a connection of its own, and whatever goes wrong counts."""

    def __init__(
        self, url: str, versions: ModelVersions, books: Books, *, seed: int, retries: bool, harmed: Harmed
    ) -> None:
        super().__init__(name=f"questions-{seed}", daemon=True)
        self._url, self._versions, self._books, self._retries, self._harmed = url, versions, books, retries, harmed
        self._random = np.random.default_rng(seed)
        self._over = threading.Event()
        self.seen: Counter[int] = Counter()
        """Answers by version."""
        self.last_answer = time.monotonic()

    def run(self) -> None:
        client = self._client()
        try:
            while not self._over.wait(_PAUSE):
                count = int(self._random.integers(1, 9))
                rows = self._random.integers(0, len(self._versions.instances), count)
                began = time.monotonic()
                try:
                    answer = client.predict([self._versions.instances[row] for row in rows])
                except Exception as error:  # whatever it is, it is a request that failed
                    self._failed(error, began)
                else:
                    self.last_answer = time.monotonic()
                    self._check(rows, answer.version, np.array(answer.probabilities, np.float64))
                if not self._retries:
                    client.close()
        finally:
            client.close()

    def end(self) -> None:
        self._over.set()
        self.join()

    def _client(self) -> Client:
        return Client(self._url, timeout=_TIMEOUT, retries=_RETRIES if self._retries else 0)

    def _check(self, rows: NDArray[np.int64], version: int, said: NDArray[np.float64]) -> None:
        self._books.count(answers=1, predictions=len(rows), **{} if self._retries else {"answers_without_retries": 1})
        self.seen[version] += 1
        if self._versions.explains(version, rows, said):
            return
        off = float(np.abs(self._versions.expected(version)[rows] - said).max())
        others = range(1, self._versions.last + 1)
        whole = [other for other in others if self._versions.explains(other, rows, said)]
        if whole:
            self._books.count(wrong=1)
            self._books.promise_broken(
                "0 wrong", f"an answer names version {version} but is of version {whole[-1]}, off by {off:.3g}"
            )
        else:
            self._books.count(mixed=1, wrong=1)
            self._books.promise_broken(
                "0 mixed", f"an answer of version {version} is what no version says, off by {off:.3g}"
            )

    def _failed(self, error: Exception, began: float) -> None:
        now = time.monotonic()
        how = "with retries" if self._retries else "without retries"
        cause = self._harmed(began, now)
        text = f"request failed {how} after {now - began:.2f} s: {error!r}"
        if cause.startswith("nobody"):
            self._books.count(failed_while_nobody_was_there=1)
            self._books.event(f"{text} ({cause})")
        elif cause and not self._retries and isinstance(error, LostConnection):
            # The bytes were with a worker that was killed. Nobody but the client can send them again.
            self._books.count(cut_off_with_a_killed_worker=1)
            self._books.event(f"{text} ({cause})")
        else:
            self._books.count(**{f"failed {how}": 1})
            self._books.promise_broken(f"0 failed {how}", text)
