"""A run on several hosts while it lasts: connections to the runners, their events, hosts that go and come back."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from clickline.config import Job
from clickline.errors import PeerError
from clickline.launch.hosts.host_messages import (
    SIGN_OF_LIFE_EVERY,
    FinishCommand,
    HostPlan,
    HostPrepared,
    LauncherMessage,
    LogLines,
    ProcessEnded,
    ProcessNews,
    RunnerDone,
    RunnerFailed,
    SignOfLife,
    StartCommand,
)
from clickline.launch.hosts.runner_connection import (
    ConnectionLost,
    EventQueue,
    HostAccess,
    HostEvent,
    HostLost,
    HostMoved,
    RunnerConnection,
)
from clickline.launch.job_records import JobRecord, kept_record
from clickline.progress import Watcher

_FAREWELL = 20.0
"""Seconds for a runner to stop its processes and end."""
_DEPARTURE = 10.0
"""Seconds for processes to leave after the run has ended; the coordinator has told them then."""
_FROM_THERE = "from the last checkpoint"


@dataclass(slots=True)
class _Node:
    """One host while the job runs."""

    name: str
    plan: HostPlan
    connection: RunnerConnection | None = None
    prepared: bool = False
    """Whether what comes before its processes is done."""
    done: bool = False
    lost_since: float | None = None
    ended: dict[str, int] = field(default_factory=dict)
    """Exit codes of processes that have ended for good."""
    dismissed: bool = False
    """Whether it was told to stop what has not left by itself."""

    @property
    def has_ended(self) -> bool:
        """Whether none of its processes runs, or will."""
        return self.done or all(f"{each.role}.{each.rank}" in self.ended for each in self.plan.processes)


class HostsRun:
    """Carries out the plans of all hosts, the first of which has the coordinator, or rank 0.

    `names` are the hosts' in messages.
    """

    def __init__(
        self,
        job: Job,
        *,
        plans: Sequence[HostPlan],
        names: Sequence[str],
        access: HostAccess,
        watcher: Watcher,
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_start` is called when the runners of all hosts are reached."""
        self._job, self._access, self._watcher, self._on_start = job, access, watcher, on_start
        # The first process of the first host leads the run: it ends it, and writes what came of it.
        self._leader = f"{plans[0].processes[0].role}.{plans[0].processes[0].rank}"
        self._rejoins = job.resolved_strategy != "collective"
        """Whether processes that were lost with their host can take their part again."""
        self._nodes = [_Node(name, plan) for name, plan in zip(names, plans, strict=True)]
        self._events: EventQueue = queue.Queue()
        self._over_since: float | None = None
        """When the leader had ended well: from then on no other process can fail the run."""
        self._finishing = False
        """Whether all processes have ended, and hosts do what is to be done after that."""
        self._log: TextIO

    def run(self, record: JobRecord) -> None:
        """Until all processes have ended well. Raises PeerError; nothing is left running in any case.

        The record is written at the beginning and at the end.
        """
        with kept_record(record):
            self.carry_out(log=Path(record.log))

    def carry_out(self, *, log: Path) -> None:
        """The same for a launcher that keeps the record itself, since it may try more than once."""
        with log.open("a", encoding="utf-8") as self._log:
            try:
                for node in self._nodes:
                    node.connection = self._access.connect(node.plan, self._events)
                self._on_start()
                self._watch()
            finally:
                self._stop()
        self._check_leader()

    def _check_leader(self) -> None:
        first = self._nodes[0]
        if first.ended.get(self._leader, 1):
            raise PeerError(f"{self._leader} on {first.name} failed; its log is in {first.plan.directory}/log")

    def _watch(self) -> None:
        """Until the leader has ended well and the others have left, or something ends the run."""
        told = 0.0
        # After the end of the run a host that is cut off has nothing to say that would be waited for.
        while not all(node.done or (node.connection is None and self._is_over) for node in self._nodes):
            self._dismiss_late()
            if time.monotonic() - told > SIGN_OF_LIFE_EVERY:
                told = time.monotonic()
                self._send(SignOfLife())
            self._reconnect()
            try:
                number, event = self._events.get(timeout=0.5)
            except queue.Empty:
                continue
            self._handle(self._nodes[number], event)

    def _send(self, message: LauncherMessage) -> None:
        for node in self._nodes:
            if node.connection is not None:
                node.connection.send(message)

    def _dismiss_late(self) -> None:
        """Stop processes that have not left a while after the run: started again just then, they find nobody."""
        if self._over_since is None or time.monotonic() - self._over_since < _DEPARTURE:
            return
        for node in self._nodes:
            # Where all have ended, the runner has something else to finish.
            remain = len(node.ended) < len(node.plan.processes)
            if remain and node.connection is not None and not node.done and not node.dismissed:
                node.dismissed = True
                if node.plan.steps is not None and node.plan.steps.after:
                    self._watcher.say(f"{node.name}: processes have not ended, so {node.plan.steps.after} is not run")
                node.connection.stop()

    @property
    def _is_over(self) -> bool:
        return self._over_since is not None

    def _handle(self, node: _Node, event: HostEvent) -> None:
        match event:
            case LogLines(process, text):
                for line in text.splitlines():
                    self._log.write(f"{node.name} {process}: {line}\n")
                    self._watcher.say(f"{node.name} {process}: {line}")
                self._log.flush()
            case ProcessNews(_, text):
                self._watcher.say(f"{node.name}: {text}")
            case HostPrepared():
                node.prepared = True
                # Again for a host that came back: those that have heard it already do nothing.
                if all(each.prepared or each.done for each in self._nodes):
                    self._send(StartCommand())
            case ProcessEnded(process, code):
                node.ended[process] = code
                if process == self._leader and code == 0:
                    self._over_since = time.monotonic()
                if node.plan.awaits_start and all(each.has_ended for each in self._nodes):
                    self._check_leader()
                    self._finishing = True
                    self._send(FinishCommand())
            case RunnerFailed(reason):
                # What is done at last counts, too.
                if not self._is_over or self._finishing:
                    raise PeerError(f"{node.name}: {reason}")
                node.done = True
            case RunnerDone():
                node.done = True
            case ConnectionLost(reason, for_good) if for_good or not self._rejoins:
                node.connection = None
                if not self._is_over:
                    self._do_without(node, reason, f"start the job again with --resume: it goes on {_FROM_THERE}")
            case HostMoved(name):
                self._watcher.say(f"{node.name} is gone: what ran there is placed on {name}")
                node.name = name
            case ConnectionLost(reason):
                # Its runner stops them as soon as it misses the launcher, so none can work beside a successor.
                self._watcher.say(f"{reason}; its processes stop there; trying again")
                node.connection, node.lost_since = None, node.lost_since or time.monotonic()

    def _reconnect(self) -> None:
        """Start the processes of hosts again whose connection was lost; give a host up after a while."""
        patience = self._job.cluster.start_timeout
        for node in self._nodes:
            # After the end of the run there is nothing to come back to: processes that were started again would wait
            # for a coordinator that has left.
            if node.connection is not None or node.done or node.lost_since is None or self._is_over:
                continue
            if time.monotonic() - node.lost_since > patience:
                gone = f"{node.name} has been gone for {patience:.0f} s"
                self._do_without(
                    node, gone, f"when it is back, or without it in cluster.hosts, --resume goes on {_FROM_THERE}"
                )
            elif self._access.is_reachable(node.plan):
                self._watcher.say(f"{node.name} is back: its processes are started again")
                # A new runner starts all of them anew, also those that had ended before the connection was lost.
                node.ended.clear()
                node.connection, node.lost_since = self._access.connect(node.plan, self._events), None

    def _do_without(self, node: _Node, gone: str, advice: str) -> None:
        """Go on without a host that only trainers ran on. Raises HostLost if it is another."""
        needed = {process.role for process in node.plan.processes if not process.spare}
        if needed:
            what = {"coordinator": "the coordinator", "pserver": "parameter servers", "trainer": "a rank of the run"}
            ran = what[min(needed)]  # the coordinator, if it is one of them
            # Its tables or its record are there alone: nobody else can go on in its place.
            raise HostLost(f"{gone}, and {ran} ran there; {advice}", node=node.plan.node)
        self._watcher.say(f"{gone}: its trainers are done without")
        node.done = True

    def _stop(self) -> None:
        connections = [(node.name, node.connection) for node in self._nodes if node.connection is not None]
        # The leader before the others: what it asks of them at the end needs them alive.
        if not all(node.done for node in self._nodes):
            self._stop_leader()
        for _, connection in connections:
            connection.stop()
        until = time.monotonic() + _FAREWELL
        for name, connection in connections:
            if not connection.close(within=max(0.1, until - time.monotonic())):
                self._watcher.say(f"{name}: the connection did not end in time and was closed")

    def _stop_leader(self) -> None:
        """Have the first host stop, and wait for its coordinator: it asks the servers for a last checkpoint.

        Rank 0 of a collective run does the same with all ranks.
        """
        first = self._nodes[0]
        until = time.monotonic() + first.plan.grace
        if first.connection is None:
            return
        first.connection.stop()
        while self._leader not in first.ended and not first.done and time.monotonic() < until:
            try:
                number, event = self._events.get(timeout=0.2)
            except queue.Empty:
                continue
            with suppress(PeerError):  # whatever fails now, everything is being stopped
                self._handle(self._nodes[number], event)
            if number == 0 and isinstance(event, ConnectionLost):
                return
