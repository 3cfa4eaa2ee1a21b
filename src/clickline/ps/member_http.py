"""The HTTP server of a parameter server or a trainer: its metrics, and whether it lives and takes part.

Pserver 0 may have the coordinator in its process. Where the environment gives the process one address, it answers for
both there: a pod has one port to be scraped, and one to be asked for the status of the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from clickline.config import Job
from clickline.ps.coordinator.coordinator import Coordinator
from clickline.ps.coordinator_client import CoordinatorClient
from clickline.train.monitoring.loop_liveness import LoopLiveness
from clickline.train.monitoring.metrics_place import VARIABLE, metrics_place
from clickline.train.monitoring.run_health import complaints_of

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from clickline.train.monitoring.metrics_server import MetricsServer
    from clickline.train.monitoring.prometheus_metrics import Labelled


def open_member_http(
    job: Job,
    client: CoordinatorClient,
    *,
    loop: LoopLiveness,
    not_serving: Callable[[], list[str]] = list,
    hosted: Coordinator | None = None,
) -> MetricsServer | None:
    """The server, if one is wanted; the coordinator is told where it is. `hosted` is the one in this process."""
    address = metrics_place(job, role=client.role, rank=client.rank)
    if address is None:
        return None
    from clickline.train.monitoring.metrics_server import MetricsServer
    from clickline.train.monitoring.prometheus_metrics import Labelled, member_metrics, merged, run_metrics

    # Where the job gives each member a port, the coordinator has one of its own.
    run = hosted if os.environ.get(VARIABLE, "").strip() else None

    def families(make: Labelled) -> Iterator[Metric]:
        own = member_metrics(make, client.stats())
        if run is None:
            return own
        return merged(own, run_metrics(Labelled(run=job.name, role="coordinator", rank="0"), run.status()))

    def complaints() -> list[str]:
        own = [] if client.failure is None else [str(client.failure)]
        return own if run is None else [*own, *complaints_of(run.status())]

    server = MetricsServer(
        address,
        labels=Labelled(run=job.name, role=client.role, rank=str(client.rank)),
        families=families,
        complaints=complaints,
        status=None if run is None else run.status,
        not_live=lambda: [*loop.complaints(), *([] if run is None else run.not_live())],
        not_ready=lambda: client.not_taking_part() or not_serving(),
    )
    client.report_also({"metrics": server.address})
    return server
