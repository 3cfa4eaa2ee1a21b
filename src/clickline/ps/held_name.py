"""A name that another process holds: whether to wait for it, and for how long."""

from __future__ import annotations

import logging
import time

from clickline.config.cluster import Cluster
from clickline.errors import ReplacedError
from clickline.processes.process_identity import proven_dead
from clickline.ps.protocol.member_messages import NameHolder

log = logging.getLogger("clickline.cluster")


class HeldName:
    """The wait of one process for its name."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self._name, self._cluster = name, cluster
        self._since = time.monotonic()
        self._logged = 0

    def seen_dead(self, holder: NameHolder) -> int:
        """The holder's client number if it is seen to be dead from here, else 0. Raises once it is sure to be alive.

        A holder that had died before this process was started is silent from then on, but for a reply that may have
        been under way. So a holder that is heard of later than that is alive.
        """
        if proven_dead(on=holder.machine, pid=holder.pid, born=holder.born):
            log.info("%s was process %d, which has ended", self._name, holder.pid)
            return holder.client
        who = f"{self._name} is process {holder.pid} on {holder.host}, heard of {holder.silent:.1f} s ago"
        # The coordinator gives the name of a dead holder away after `warn_after` of silence. Twice that time, and some
        # heartbeats for replies that were under way, is enough to exclude a dead holder.
        if time.monotonic() - self._since > 2 * self._cluster.warn_after + 4 * self._cluster.heartbeat:
            raise ReplacedError(
                f"{who}: it is alive, and there can be one {self._name}; stop that process, or give this one another "
                "rank"
            )
        if self._logged != holder.client:
            self._logged = holder.client
            log.warning("%s; waiting until it has been silent for %g s", who, holder.warn_after)
        return 0
