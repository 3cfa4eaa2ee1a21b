"""Random faults on a running suite, while predictions are asked for and versions are published.

    with RunningSuite(state) as suite:
        outcome = FaultSchedule(suite, versions, seed=1).run(seconds=60)

A fault is `kill` (SIGKILL), `stop` (SIGSTOP, which only the heartbeat can find) or `pause` (stopped and continued after
less than the heartbeat's limit), of a file server, transfer, agent, cube server, predictor or one of its workers.
Several may be under way at once, but never of two that stand in for each other: two replicas of one shard, two workers.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from support.eventually import eventually
from support.serving.prediction_clients import Asker, PlainAsker, totalled, trouble_of
from support.suites.running_suite import RunningSuite
from support.suites.suite_processes import lives
from support.versions.model_versions import ModelVersions

KINDS = ("kill", "stop", "pause")
ROLES = ("fileserver", "transfer", "agent", "cube", "predictor", "worker")


@dataclass
class Fault:
    """One that was injected."""

    kind: str
    role: str
    rank: int
    pid: int
    begun: int
    """Workers that had begun before it."""

    @property
    def name(self) -> str:
        return f"{self.role}.{self.rank}"


@dataclass
class Outcome:
    """What a schedule came to."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    """By kind and role: "stop cube"."""
    counts: Counter[str] = field(default_factory=Counter)
    """answers, mixed, wrong, misnamed; failed (for clients that ask again); asked_once, failed_once, lost_once,
    refused_once (without); published, delivered (has been in service)."""
    trouble: list[str] = field(default_factory=list)

    def in_words(self) -> str:
        by_kind = {kind: sum(n for name, n in self.faults.items() if name.startswith(kind)) for kind in KINDS}
        told = ", ".join(f"{count} {kind}" for kind, count in by_kind.items())
        counts = self.counts
        return (
            f"seed {self.seed}: {sum(self.faults.values())} random faults on a running suite ({told}): "
            f"{counts['answers']:,} answers, {counts['mixed']} of two versions, {counts['wrong']} wrong; "
            f"{counts['failed']} failed for clients that ask again, {counts['failed_once']} of "
            f"{counts['asked_once']:,} that were asked once ({counts['lost_once']} lost with a process that answered "
            f"them, {counts['refused_once']} refused); {counts['delivered']} of {counts['published']} versions "
            "delivered"
        )


class FaultSchedule:
    """Faults by a random schedule. `versions` is the suite's store: `ModelVersions(state / "versions", …)`."""

    def __init__(
        self,
        suite: RunningSuite,
        versions: ModelVersions,
        *,
        seed: int,
        kinds: Sequence[str] = KINDS,
        roles: Sequence[str] = ROLES,
        until_next: tuple[float, float] = (0.1, 1.0),
        publish_every: float = 2.0,
        clients: int = 2,
        plain_clients: int = 2,
    ) -> None:
        self._suite, self._versions, self._kinds, self._roles = suite, versions, tuple(kinds), tuple(roles)
        self._until_next, self._publish_every = until_next, publish_every
        self._random = random.Random(seed)
        self._open: list[Fault] = []
        self.outcome = Outcome(seed)
        self.askers: list[Asker] = [
            (PlainAsker if n < plain_clients else Asker)(suite.url, versions, seed=100 * seed + n)
            for n in range(clients + plain_clients)
        ]

    @property
    def plain_clients(self) -> int:
        return sum(isinstance(asker, PlainAsker) for asker in self.askers)

    def run(self, seconds: float, *, step: Callable[[], bool] | None = None) -> Outcome:
        """Inject faults for so long; then wait until all are mended and one more version is served.

        `step` is called instead of injecting a random one, until it returns False.
        """
        for asker in self.askers:
            asker.start()
        try:
            published, over = 0.0, time.monotonic() + seconds
            while time.monotonic() < over:
                self._suite.check()
                self._forget_mended()
                if step is None:
                    self.inject()
                elif not step():
                    break
                if time.monotonic() - published > self._publish_every and self.publish():
                    published = time.monotonic()
                time.sleep(self._random.uniform(*self._until_next))
            self.await_mended()
            self.publish(wait=True)
        finally:
            for asker in self.askers:
                asker.end()
            self.outcome.counts.update(totalled(self.askers))
            self.outcome.trouble = trouble_of(self.askers)
        return self.outcome

    def publish(self, *, wait: bool = False) -> bool:
        """One more version, if the last is in service; `wait` for it, and for an answer by this one."""
        last = self._versions.last
        if wait:
            eventually(lambda: self._suite.suite.cube.serving() >= last, what=f"version {last} in service")
        elif self._suite.suite.cube.serving() < last:
            return False
        version = self._versions.base() if self._random.random() < 0.25 else self._versions.delta()
        counts = self.outcome.counts
        counts["delivered"] = counts["published"]  # each is published when the one before is in service
        counts["published"] += 1
        if wait:
            eventually(lambda: any(asker.seen[version] for asker in self.askers), what=f"an answer by {version}")
            counts["delivered"] = counts["published"]
        return True

    def inject(self, kind: str = "", role: str = "") -> Fault | None:
        """One fault, of a component whose stand-ins are all well; None if there is none such now."""
        kind = kind or self._random.choice(self._kinds)
        components = self._suite.components()
        for wanted in [role] if role else self._random.sample(self._roles, len(self._roles)):
            candidates = [one for one in components if one["role"] == wanted and one["pid"]]
            if not candidates:
                continue
            chosen = self._random.choice(candidates)
            fault = Fault(kind, wanted, chosen["rank"], chosen["pid"], self._suite.begun())
            if self._may_be_hit(fault) and self._hit(fault):
                self.outcome.faults[f"{kind} {wanted}"] += 1
                self._open.append(fault)
                return fault
        return None

    def _hit(self, fault: Fault) -> bool:
        """Whether it was there to be hit."""
        try:
            descriptor = os.pidfd_open(fault.pid)
        except ProcessLookupError:
            return False
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
            if fault.kind == "pause":
                time.sleep(self._random.uniform(0.05, 0.3 * self._suite.stall_after))
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGCONT)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    def _may_be_hit(self, fault: Fault) -> bool:
        group = self._group(fault.role, fault.rank)
        if any(self._group(one.role, one.rank) == group for one in self._open):
            return False
        if fault.role != "cube":
            return self._suite.answers(fault.role, fault.rank)
        replicas = self._suite.suite.cube.replicas
        first = fault.rank // replicas * replicas
        shard = range(first, first + replicas)
        newest = max(self._suite.switch_number(rank) for rank in range(replicas * self._suite.suite.cube.shards))
        # A replica that has not caught up yet is no help to anybody: then the other must live.
        return all(self._suite.switch_number(rank) == newest > 0 for rank in shard)

    def _group(self, role: str, rank: int) -> str:
        if role == "cube":
            return f"shard {rank // self._suite.suite.cube.replicas}"
        return "workers" if role in ("predictor", "worker") else f"{role}.{rank}"

    def _forget_mended(self) -> None:
        self._open = [fault for fault in self._open if not self.mended(fault)]

    def mended(self, fault: Fault) -> bool:
        """Whether another process is in its place, if it needs one, and does what it did."""
        if fault.kind != "pause" and lives(fault.pid):
            return False
        if fault.role in ("predictor", "worker"):
            missing = 0 if fault.kind == "pause" else self._suite.workers if fault.role == "predictor" else 1
            if self._suite.begun() < fault.begun + missing:
                return False
        return self._suite.answers(fault.role, fault.rank)

    def await_mended(self) -> None:
        """Until every fault is; who stands still must have been found by then."""

        def all_mended() -> bool:
            self._suite.check()
            self._forget_mended()
            return not self._open

        eventually(all_mended, what="all faults mended")
