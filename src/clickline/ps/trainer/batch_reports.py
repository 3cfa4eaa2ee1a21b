"""Batches that a trainer has learned from, until they are reported to the coordinator."""

from __future__ import annotations

import time

import numpy as np

from clickline.data.batch import Batch
from clickline.ps.coordinator_client import CoordinatorClient
from clickline.ps.protocol.work_messages import ReportReply, ReportRequest
from clickline.train.learner import Learned

_REPORT_EVERY = 1.0
"""Seconds."""


class BatchReports:
    """Collects batches, and counts what this trainer has done."""

    def __init__(self, coordinator: CoordinatorClient) -> None:
        self._coordinator = coordinator
        self._batches: list[tuple[Batch, Learned, int]] = []
        self._sent = time.monotonic()
        self.rows = self.steps = 0
        """Since the process was started."""
        self.rate = 0.0
        """Rows a second, between the last two reports."""

    def add(self, batch: Batch, learned: Learned, *, step: int) -> None:
        self._batches.append((batch, learned, step))
        self.rows += len(batch)
        self.steps += 1

    @property
    def due(self) -> bool:
        return time.monotonic() - self._sent > _REPORT_EVERY

    def discard(self) -> None:
        """Drop batches of a generation that is over."""
        self._batches = []

    def send(self, *, generation: int, tick: int) -> None:
        """Report all batches since the last report, if there are any."""
        if not self._batches:
            return
        batches, self._batches = self._batches, []
        now = time.monotonic()
        self.rate = sum(len(batch) for batch, _, _ in batches) / max(now - self._sent, 1e-3)
        self._sent = now
        arrays = {
            "logits": np.concatenate([learned.logits[:, 0] for _, learned, _ in batches]),
            "labels": np.concatenate([batch.labels[:, 0] for batch, _, _ in batches]),
            "losses": np.array([learned.loss for _, learned, _ in batches]),
            "sizes": np.array([len(batch) for batch, _, _ in batches]),
            "steps": np.array([step for _, _, step in batches]),
        }
        if batches[0][0].weights is not None:
            arrays["weights"] = np.concatenate([batch.weights for batch, _, _ in batches if batch.weights is not None])
        request = ReportRequest(generation=generation, step=int(arrays["steps"][-1]), tick=tick)
        self._coordinator.ask(request, ReportReply, arrays, once=True)
