"""How the coordinator waits: never without looking after everybody.

While it waits, for a piece to be done or for servers that save, processes are watched and started again, the work of
the dead goes to others, and a reason to stop or to roll back is heard. Therefore whatever may take long is done by
another thread, and waited for here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as settle
from pathlib import Path
from typing import Any, TypeVar

from clickline.config import Job
from clickline.errors import PeerError, ReplacedError
from clickline.progress import Watcher
from clickline.ps.coordinator.handlers import Desk
from clickline.ps.coordinator.pserver_admin import Orders
from clickline.ps.coordinator.record import Standing
from clickline.train.checkpoints import checkpoint_files
from clickline.train.interrupts import Interrupts

T = TypeVar("T")


class RolledBack(Exception):
    """Everybody goes on from the last cut; whatever was being done is void."""


class Waiting:
    """Waiting, errands, and the burials in between."""

    def __init__(self, *, job: Job, desk: Desk, watcher: Watcher) -> None:
        self.job, self.desk, self.watcher = job, desk, watcher
        self._orders: Orders | None = None
        self._look: Callable[[], None] = lambda: None
        self._errands = ThreadPoolExecutor(1, thread_name_prefix="clickline-errand")
        self._interrupts = Interrupts()
        self.verified: set[str] = set()
        """Checkpoints that were written or read through by this process: the others are, before servers load them."""
        self._turned = self._asked = time.monotonic()
        self._away = False
        """Whether an errand is under way; no other can be sent meanwhile."""

    @property
    def standing(self) -> Standing:
        return self.desk.standing

    def _wait(
        self,
        happened: Callable[[], bool],
        *,
        missing: Callable[[], list[str]] | None = None,
        patience: float | None = None,
        rolling: bool = False,
    ) -> None:
        """Until something has happened; `rolling`: deaths are no reason to roll back, for that is being done."""
        desk, most = self.desk, self.job.cluster.start_timeout
        deadline = None if patience is None else time.monotonic() + patience
        while True:
            with desk.changed:
                if happened():
                    return
                desk.changed.wait(0.2)
            self._interrupts.check()
            self._check_place()
            if desk.overtaken is not None:
                raise ReplacedError(desk.overtaken)
            self._look()
            if desk.stopping is not None:
                raise PeerError(desk.stopping)
            desk.look()
            if desk.rollback_wanted and not rolling and not desk.final:
                raise RolledBack
            if not rolling:  # else all leases are void, and who has died since is seen to afterwards
                self._bury()
            for fault in desk.news():
                self.watcher.say(fault)
            desk.show(self.watcher)
            if deadline is not None and time.monotonic() > deadline:
                named = ", ".join(missing() if missing else []) or "everybody"
                raise PeerError(
                    f"waited {patience:.0f} s for {named}: not there; look at its log, or raise cluster.start_timeout"
                )
            absent = desk.absent(most)
            if absent:
                raise PeerError(f"{absent} has been gone for {most:.0f} s and did not come back")

    def _check_place(self) -> None:
        """Ask the servers who is coordinator, after a standstill of this process, and while nobody is heard of.

        Then another one may have come in its place, and nothing must be concluded from everybody's silence.
        """
        now, patience = time.monotonic(), self.job.cluster.warn_after
        stood_still, self._turned = now - self._turned > patience, now
        alone = self.desk.begun and not self.desk.anybody_well() and now - self._asked > patience
        if self._orders is not None and (stood_still or alone):
            self._orders.check_obeyed()
            self._asked = self._turned = time.monotonic()

    def _errand(self, work: Callable[[], T], *, rolling: bool = False) -> T:
        """Have something done that may take long, such as what needs a server that is being started again."""
        future: Future[T] = self._errands.submit(work)
        future.add_done_callback(lambda _: self._nudge())
        self._away = True
        try:
            self._wait(future.done, rolling=rolling)
            return future.result()
        except BaseException:
            while not future.done():  # it may not have begun to wait when it is called off first
                self._servers().cancel()
                settle([future], timeout=0.1)
            raise
        finally:
            self._away = False

    def _nudge(self) -> None:
        with self.desk.changed:
            self.desk.changed.notify_all()

    def _bury(self) -> None:
        """Give the work of the dead to the living."""
        for holder in [] if self._away else self.desk.all_dead():
            leases = self.desk.leases_of(holder)
            found = self._progress() if leases else {}
            known = {lease: found.get(lease, (0, 0)) for lease in leases}
            # Rows that an earlier holder is known to have done are done, whatever a server has forgotten since.
            self.desk.bury(holder, {n: (max(least, leases[n]), most) for n, (least, most) in known.items()})

    def _progress(self) -> dict[int, tuple[int, int]]:
        servers, replaced = self._servers(), self.desk.replaced()
        return self._errand(lambda: servers.progress(replaced=replaced))

    def _order(self, op: str, facts: dict[str, Any] | None = None, *, rolling: bool = False) -> list[dict[str, Any]]:
        servers = self._servers()
        return self._errand(lambda: servers.all(op, facts), rolling=rolling)

    def _load(self, checkpoint: str | Path | None, *, rolling: bool = False) -> None:
        standing = self.standing
        path = None if checkpoint is None else str(checkpoint)
        if path is not None and path not in self.verified:
            self._errand(lambda: checkpoint_files.verify(checkpoint_files.read(Path(path))), rolling=rolling)
            self.verified.add(path)
        self.desk.serves = path
        self._order(
            "load", {"checkpoint": path, "generation": standing.generation, "warm": standing.warm}, rolling=rolling
        )

    def _servers(self) -> Orders:
        if self._orders is None:
            raise PeerError("no servers have joined yet")
        return self._orders
