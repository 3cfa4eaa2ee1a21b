"""Metrics of a rank other than the first, which answers for the whole run (run_status.py)."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from prometheus_client.core import Metric

from clickline.config import Job
from clickline.train.loop.run import Run
from clickline.train.monitoring.metrics_place import metrics_place
from clickline.train.monitoring.metrics_server import MetricsServer
from clickline.train.monitoring.prometheus_metrics import Labelled, member_metrics
from clickline.train.monitoring.run_status import training_hangs, training_not_begun


class RankMetrics:
    """Serves the metrics of one rank while it is entered, if the job or the environment asks for them."""

    def __init__(self, job: Job, *, rank: int) -> None:
        self._job, self._rank = job, rank
        self._run: Run | None = None
        self._server: MetricsServer | None = None

    def __enter__(self) -> RankMetrics:
        place = metrics_place(self._job, role="trainer", rank=self._rank)
        if place is not None:
            labels = Labelled(run=self._job.name, role="trainer", rank=str(self._rank))
            self._server = MetricsServer(
                place,
                labels=labels,
                families=self._families,
                complaints=list,  # a rank that lives is well: one that is not ends, and all others with it
                not_live=lambda: training_hangs(self._job, self._run),
                not_ready=lambda: training_not_begun(self._run),
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def address(self) -> str:
        """Where the metrics are served; empty if they are not."""
        return "" if self._server is None else self._server.address

    def follow(self, run: Run) -> None:
        """Report this run from now on."""
        self._run = run

    def _families(self, make: Labelled) -> Iterator[Metric]:
        return iter(()) if self._run is None else member_metrics(make, self._run.members()[0])
