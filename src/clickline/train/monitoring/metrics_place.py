"""Where a training process answers what Prometheus asks, if it does at all. The server itself is loaded only then."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from clickline.errors import JobError
from clickline.net.addresses import listen_address

if TYPE_CHECKING:
    from clickline.config import Job

VARIABLE = "CLICKLINE_METRICS"


def metrics_place(
    job: Job, *, role: str, rank: int, environ: Mapping[str, str] | None = None
) -> tuple[str, int] | None:
    """Where a process of a run answers; None if it does not. Port 0 is any free one.

    From `cluster.metrics_port` on, the process that knows the run comes first (the coordinator, the one process or rank
    0), then servers and trainers by their ranks.
    """
    said = (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    if said:
        try:
            host, port = listen_address(said if ":" in said else f":{said}")
        except JobError:
            raise JobError(f"{VARIABLE} is {said!r}, expected HOST:PORT or PORT, such as 127.0.0.1:9100") from None
        return host or "127.0.0.1", port
    cluster = job.cluster
    if not cluster.metrics:
        return None
    if not cluster.metrics_port:
        return cluster.metrics_host, 0
    # Ports are a function of role and rank: a scraper can be configured before the processes are started.
    before = {"coordinator": 0, "pserver": 1, "trainer": 1 + cluster.pservers if cluster.pservers else 0}[role]
    port = cluster.metrics_port + before + rank
    if port > 65_535:
        raise JobError(
            f"cluster.metrics_port is {cluster.metrics_port}: {role}.{rank} would need port {port}; lower it"
        )
    return cluster.metrics_host, port
