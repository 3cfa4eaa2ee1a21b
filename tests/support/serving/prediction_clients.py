"""Clients that never stop asking a predictor, and hold each answer against the version that it names.

`Asker` asks as users of the Python client do, which asks again when an answer is lost. `PlainAsker` asks once and takes
what comes, as a program without such a client would: so both figures are known, failed requests and failed attempts.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from clickline import Client
from clickline.client.raw_rows import Instance
from support.versions.model_versions import ModelVersions

MODEL = "ctr"
_TIMEOUT = 30.0


class Asker(threading.Thread):
    """Asks for a few rows again and again, and judges the answers."""

    def __init__(self, url: str, versions: ModelVersions, *, seed: int, pause: float = 0.01) -> None:
        super().__init__(daemon=True)
        self._url, self._versions, self._pause = url, versions, pause
        self._random = np.random.default_rng(seed)
        self._over = threading.Event()
        self.counts: Counter[str] = Counter(answers=0, predictions=0, mixed=0, wrong=0, misnamed=0, failed=0)
        self.seen: Counter[int] = Counter()
        self.slowest = 0.0
        self.trouble: list[str] = []

    def run(self) -> None:
        with Client(self._url, timeout=_TIMEOUT, retries=20) as client:
            self._client = client
            while not self._over.wait(self._pause):
                count = int(self._random.integers(1, 9))
                rows = self._random.integers(0, len(self._versions.instances), count)
                began = time.monotonic()
                try:
                    version, said = self._ask([self._versions.instances[row] for row in rows])
                except Exception as error:  # whatever it is, it is a request that failed
                    self._failed(error)
                    continue
                self.noted(time.monotonic() - began)
                self._judge(rows, version, np.array(said, np.float64))

    def _ask(self, instances: Sequence[Instance]) -> tuple[int, Sequence[float]]:
        found = self._client.predict(list(instances))
        return found.version, found.probabilities

    def _failed(self, error: Exception) -> None:
        self.counts["failed"] += 1
        self.trouble.append(f"{time.strftime('%H:%M:%S')} {error!r}")

    def noted(self, seconds: float) -> None:
        """How long an answer took."""
        self.slowest = max(self.slowest, seconds)

    def _judge(self, rows: NDArray[np.int64], version: int, said: NDArray[np.float64]) -> None:
        self.counts.update(answers=1, predictions=len(rows))
        self.seen[version] += 1
        if self._versions.explains(version, rows, said):
            return
        others = range(1, self._versions.last + 1)
        kind = "misnamed" if any(self._versions.explains(each, rows, said) for each in others) else "mixed"
        self.counts.update({kind: 1, "wrong": 1})
        off = float(np.abs(self._versions.expected(version)[rows] - said).max())
        self.trouble.append(f"{time.strftime('%H:%M:%S')} version {version}: {kind}, off by {off:.3g}")

    def end(self) -> None:
        self._over.set()
        self.join()


class PlainAsker(Asker):
    """Asks each request once, over a connection that it keeps; counts what was lost, and what was refused."""

    def __init__(self, url: str, versions: ModelVersions, *, seed: int, pause: float = 0.01) -> None:
        super().__init__(url, versions, seed=seed, pause=pause)
        self.counts.update(asked_once=0, lost_once=0, refused_once=0)
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT)

    def _ask(self, instances: Sequence[Instance]) -> tuple[int, Sequence[float]]:
        self.counts["asked_once"] += 1
        body = json.dumps({"instances": list(instances)}).encode()
        try:
            self._connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            content = answer.read()
        except Exception:
            self._connection.close()
            self.counts["lost_once"] += 1
            raise
        if answer.status != 200:
            self.counts["refused_once"] += 1
            raise RuntimeError(f"HTTP {answer.status}: {content[:300]!r}")
        found = json.loads(content)
        return int(found["version"]), found["predictions"]

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._connection.close()

    def _failed(self, error: Exception) -> None:
        self.trouble.append(f"{time.strftime('%H:%M:%S')} asked once: {error!r}")


def totalled(askers: Sequence[Asker]) -> Counter[str]:
    """The counts of all of them; `failed` is of the clients that ask again, `failed_once` of the others."""
    total: Counter[str] = Counter(asked_once=0, lost_once=0, refused_once=0)
    for asker in askers:
        total.update(asker.counts)
    total["failed_once"] = total["lost_once"] + total["refused_once"]
    return total


def trouble_of(askers: Sequence[Asker]) -> list[str]:
    return sorted(line for asker in askers for line in asker.trouble)
