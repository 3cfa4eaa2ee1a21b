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
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from clickline.cube.serving import Commands
from clickline.errors import PeerError
from clickline.launch.suite_states import claimed
from clickline.launch.suites import Suite
from cube_processes import eventually
from model_versions import ModelVersions
from prediction_askers import MODEL, Asker, PlainAsker, totalled, trouble_of
from suite_processes import lives

KINDS = ("kill", "stop", "pause")
ROLES = ("fileserver", "transfer", "agent", "cube", "predictor", "worker")
STALL_AFTER = 3.0
"""Seconds without a heartbeat: short for a test, long for a loop on a busy machine."""
_FIRST_VERSION = re.compile(rf"serve\.\d+ model {MODEL}: version \d+$", re.MULTILINE)
_PATHS = {"fileserver": "/health", "transfer": "/dict/info", "agent": "/agent/status"}


class RunningSuite(threading.Thread):
    """A suite, looked after by a thread that lives as long as it. A context manager."""

    def __init__(self, state: Path, *, stall_after: float = STALL_AFTER, workers: int = 2, **options: Any) -> None:
        super().__init__(daemon=True)
        self.state, self.stall_after, self.workers = state, stall_after, workers
        self.events: list[str] = []
        self.error: BaseException | None = None
        self._options = {"port": 0, "wait": 0.3, **options}
        self._serves, self._over = threading.Event(), threading.Event()
        self._http = httpx.Client(trust_env=False, timeout=1.0)

    def run(self) -> None:
        try:
            with (
                claimed(self.state),
                Suite(
                    self.state,
                    stall_after=self.stall_after,
                    workers=self.workers,
                    on_event=self._event,
                    **self._options,
                ) as suite,
            ):
                self.suite = suite
                suite.until(lambda: bool(suite.http), what="a suite that serves")
                suite.tell()
                self._serves.set()
                while not self._over.wait(0.02):
                    suite.poll()
        except BaseException as error:
            self.error = error

    def _event(self, text: str) -> None:
        self.events.append(f"{time.strftime('%H:%M:%S')} {text}")

    def __enter__(self) -> Self:
        self.start()
        eventually(lambda: self._serves.is_set() or not self.is_alive(), what="a suite that serves")
        self.check()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(120)
        self._http.close()

    def check(self) -> None:
        """Raises what has ended the suite, if something has."""
        if self.error is not None:
            raise self.error

    @property
    def url(self) -> str:
        return self.suite.http

    def components(self) -> list[dict[str, Any]]:
        """Processes that the suite looks after, and the predictor's workers."""
        found = [dict(one) for one in self.suite.supervisor.states()]
        (predictor,) = [one for one in found if one["role"] == "predictor"]
        workers = _children(predictor["pid"]) if self.workers > 1 else []
        return found + [
            {"role": "worker", "rank": rank, "name": f"worker.{rank}", "pid": pid} for rank, pid in enumerate(workers)
        ]

    def pid(self, name: str) -> int | None:
        return next((one["pid"] for one in self.components() if one["name"] == name), None)

    def begun(self) -> int:
        """Workers, also of the past, that have got as far as to have a version."""
        log = self.suite.directory / "logs" / "predictor.0.log"
        return len(_FIRST_VERSION.findall(log.read_text(encoding="utf-8")))

    def answers(self, role: str, rank: int) -> bool:
        """Whether a component does, asked in its own way."""
        if role == "cube":
            return self.switch_number(rank) > 0
        if role in ("predictor", "worker"):
            return len(_children(self.pid("predictor.0"))) == self.workers
        with suppress(httpx.HTTPError):
            address = self.suite._address(role, rank)
            return bool(address) and self._http.get(address + _PATHS[role]).status_code == 200
        return False

    def switch_number(self, rank: int) -> int:
        """Of the version that a cube server serves; 0 if it serves none or does not answer."""
        shard, replica = divmod(rank, self.suite.cube.replicas)
        address = self.suite.cube.servers[shard][replica]
        try:
            with Commands(address, name=MODEL, token=self.suite.token.encode(), patience=0.0, deadline=1.0) as server:
                return int(server.call("status")["number"])
        except PeerError:
            return 0


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
            f"them, {counts['refused_once']} refused); {counts['delivered']} of {counts['published']} versions delivered"
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


def _children(pid: int | None) -> list[int]:
    with suppress(OSError, ValueError):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        return [int(one) for one in found if lives(int(one))]
    return []
