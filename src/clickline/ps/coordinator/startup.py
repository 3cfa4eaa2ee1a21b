"""The beginning of a run: servers and trainers gather, or a coordinator takes over those that are there."""

from __future__ import annotations

import secrets
import time

from clickline.progress import Watcher
from clickline.ps.coordinator.pserver_admin import PserverAdmin
from clickline.ps.coordinator.state.failures import FailureDetector
from clickline.ps.coordinator.state.run_state import RunState
from clickline.ps.coordinator.supervision import Supervision


class Startup:
    """Waits until the run can begin."""

    def __init__(
        self,
        *,
        state: RunState,
        supervision: Supervision,
        failures: FailureDetector,
        watcher: Watcher,
        token: bytes,
    ) -> None:
        self._state, self._supervision, self._failures = state, supervision, failures
        self._watcher, self._token = watcher, token

    def run(self, *, taking_over: bool) -> bool:
        """Wait for servers and trainers, as many as the job wants; whether all must go back to the last snapshot."""
        state, cluster = self._state, self._state.job.cluster
        for idle in state.data.shortages():
            self._watcher.say(idle)
        self._watcher.begin(f"waiting for {cluster.pservers} servers and {cluster.trainers} trainers")
        if taking_over and state.record.book is not None:
            state.take_up_leases()  # before anybody can report that a lease of it is done
        state.open(taking_over=taking_over)
        # They load when a trainer has described the model, which is waited for below with patience of its own.
        self._supervision.await_members(lambda: state.ready(pservers=cluster.pservers, held=True))
        pservers = PserverAdmin(
            job=state.job,
            model=lambda: state.model,
            addresses=[member.address for member in state.members.live("pserver")],
            token=self._token,
            client=secrets.randbits(62) + 1,
            file=state.record_file,
        )
        self._supervision.connect(pservers)
        if taking_over:
            return self._take_over()
        self._supervision.await_members(lambda: state.ready(pservers=cluster.pservers, trainers=cluster.trainers))
        self._say_how_checkpoints_travel()
        return False

    def _say_how_checkpoints_travel(self) -> None:
        far = [
            f"{server.name} on {server.host}"
            for server in self._state.members.live("pserver")
            if not server.sees_directory
        ]
        if far:
            self._watcher.say(f"checkpoints travel over the network: {', '.join(far)} without {self._state.directory}")

    def _take_over(self) -> bool:
        """Find out who has lived on without a coordinator; whether all must go back to the last snapshot.

        Holders of leases are waited for a while, then given up.
        """
        state, cluster, lifecycle = self._state, self._state.job.cluster, self._state.lifecycle
        until = time.monotonic() + cluster.evict_after
        self._supervision.wait(lambda: self._holders_joined() or time.monotonic() > until)
        self._supervision.await_members(lambda: state.ready(pservers=0, trainers=1))
        if state.lockstep or lifecycle.stale_servers or len(lifecycle.empty_servers) == cluster.pservers:
            # How far lockstep had come is in no record, and servers that all are new have nothing but the snapshot.
            state.record.faults.append("a new coordinator took over")
            return True
        # Some servers have lived on with rows that no snapshot has, and those that are new load the last one: what
        # they have lost is counted.
        self._supervision.await_members(lambda: state.ready(pservers=cluster.pservers))
        self._failures.give_up_missing_holders()
        return False

    def _holders_joined(self) -> bool:
        return self._state.leases.holders <= {member.holder for member in self._state.members.live("trainer")}
