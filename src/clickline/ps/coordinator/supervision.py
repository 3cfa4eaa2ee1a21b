"""How the coordinator waits: never without looking after the processes of the run.

While it waits, for a piece to be done or for servers that save, processes are watched and started again, the leases of
dead trainers go to others, and a reason to stop or to roll back is noticed. Therefore whatever may take long is done by
another thread, and waited for here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from pathlib import Path
from typing import TypeVar

from clickline.errors import PeerError, ReplacedError
from clickline.progress import Watcher
from clickline.ps.coordinator.pserver_admin import PserverAdmin
from clickline.ps.coordinator.state.failures import FailureDetector, LeaseRows
from clickline.ps.coordinator.state.members import MemberState
from clickline.ps.coordinator.state.run_state import RunState
from clickline.ps.coordinator.status_report import StatusFile
from clickline.ps.coordinator.training_display import TrainingDisplay
from clickline.ps.protocol.pserver_messages import LoadReply, LoadRequest, ServerReply, ServerRequest
from clickline.train.checkpoints import checkpoint_files
from clickline.train.interrupts import Interrupts

T = TypeVar("T")
R = TypeVar("R", bound=ServerReply)


class RollbackError(Exception):
    """Raised where the run waits when everybody must go back to the last snapshot: what was being done is void."""


class Supervision:
    """Waiting, and orders to the servers that are waited for."""

    def __init__(
        self,
        *,
        state: RunState,
        failures: FailureDetector,
        display: TrainingDisplay,
        status_file: StatusFile,
        watcher: Watcher,
        verified: set[str],
    ) -> None:
        """`verified`: checkpoints that were read through by this process; others are before servers load them."""
        self._state, self._failures, self._watcher = state, failures, watcher
        self._display, self._status_file = display, status_file
        self.interrupts = Interrupts()
        self.verified = verified
        self._pservers: PserverAdmin | None = None
        self._poll: Callable[[], None] = lambda: None
        self._background = ThreadPoolExecutor(1, thread_name_prefix="clickline-background")
        self._last_turn = self._last_probe = time.monotonic()
        self._busy = False
        """Whether work is under way in the background; nothing else can be begun there meanwhile."""

    @property
    def pservers(self) -> PserverAdmin:
        if self._pservers is None:
            raise PeerError("no servers have joined yet")
        return self._pservers

    def connect(self, pservers: PserverAdmin) -> None:
        """The servers have joined: send orders to them from here on."""
        self._pservers = pservers

    def server_moved(self, rank: int, address: str) -> None:
        if self._pservers is not None:
            self._pservers.moved(rank, address)

    @property
    def turned_at(self) -> float:
        """When the loop of the coordinator last turned, by the monotonic clock."""
        return self._last_turn

    def poll_by(self, poll: Callable[[], None]) -> Callable[[], None]:
        """Call this often while waiting, which may raise to end the run; returns what was called before."""
        before, self._poll = self._poll, poll
        return before

    def wait(
        self,
        condition: Callable[[], bool],
        *,
        missing: Callable[[], list[str]] | None = None,
        patience: float | None = None,
        rolling: bool = False,
    ) -> None:
        """Until the condition holds. `rolling`: deaths are no reason to roll back, for that is being done.

        With `patience`, raises PeerError after so many seconds, which names what is `missing`.
        """
        state, lifecycle = self._state, self._state.lifecycle
        longest = state.job.cluster.start_timeout
        deadline = None if patience is None else time.monotonic() + patience
        while True:
            with state.changed:
                if condition():
                    return
                # With a timeout: silent members and signals notify nothing, and are checked once per turn.
                state.changed.wait(0.2)
            self.interrupts.check()
            # Before anything is concluded from silence: if this process stood still, everybody seems silent.
            self._check_superseded()
            if lifecycle.superseded is not None:
                raise ReplacedError(lifecycle.superseded)
            self._poll()
            if lifecycle.stop_reason is not None:
                raise PeerError(lifecycle.stop_reason)
            if state.data.failure is not None:
                raise state.data.failure
            # Order matters: a silent member must be given up before its leases can be returned, and a rollback makes
            # returning them pointless.
            self._failures.check()
            if lifecycle.rollback_wanted and not rolling and not lifecycle.final:
                raise RollbackError
            if not rolling:  # else all leases are void, and those who have died since are seen to afterwards
                self._return_orphaned_leases()
            self._show()
            if deadline is not None and time.monotonic() > deadline:
                named = ", ".join(missing() if missing else []) or "everybody"
                raise PeerError(
                    f"waited {patience:.0f} s for {named}: not there; look at its log, or raise cluster.start_timeout"
                )
            absent = self._failures.longest_absent(longest)
            if absent:
                raise PeerError(f"{absent} has been gone for {longest:.0f} s and did not come back")

    def await_members(self, condition: Callable[[], bool], *, rolling: bool = False) -> None:
        """Wait for processes to be there, as long as `cluster.start_timeout`."""
        patience = self._state.job.cluster.start_timeout
        self.wait(condition, missing=self._state.missing, patience=patience, rolling=rolling)

    def _check_superseded(self) -> None:
        """Ask the servers who is coordinator, after a standstill of this process, and while nobody is heard of.

        Then another one may have come in its place, and nothing must be concluded from everybody's silence.
        """
        # A turn takes a fraction of a second. One that took longer than `warn_after` means that this process was
        # stopped (SIGSTOP, a frozen machine), so heartbeats may have gone to another coordinator meanwhile.
        now, patience = time.monotonic(), self._state.job.cluster.warn_after
        stood_still, self._last_turn = now - self._last_turn > patience, now
        alone = self._state.lifecycle.begun and not self._anybody_well() and now - self._last_probe > patience
        if self._pservers is not None and (stood_still or alone):
            self._pservers.check_obeyed()
            self._last_probe = self._last_turn = time.monotonic()

    def _anybody_well(self) -> bool:
        with self._state.changed:
            return any(member.state == MemberState.WELL for member in self._state.members.by_client.values())

    def _show(self) -> None:
        with self._state.changed:
            faults = self._state.failures.take_unreported()
        for fault in faults:
            self._watcher.say(fault)
        self._display.advance()
        self._status_file.write_if_due()

    def in_background(self, work: Callable[[], T], *, rolling: bool = False) -> T:
        """Do something that may take long, such as a call to a server that is being restarted, and wait for it."""
        # One thread only: calls to the servers share a lane, and orders must arrive in the order they were given.
        future: Future[T] = self._background.submit(work)
        future.add_done_callback(lambda _: self._wake())
        self._busy = True
        try:
            self.wait(future.done, rolling=rolling)
            return future.result()
        except BaseException:
            # The work may not have begun to wait on the lane when it is cancelled first, so it is cancelled until done.
            while not future.done():
                self.pservers.cancel()
                wait_for_futures([future], timeout=0.1)
            raise
        finally:
            self._busy = False

    def _wake(self) -> None:
        with self._state.changed:
            self._state.changed.notify_all()

    def _return_orphaned_leases(self) -> None:
        """Give the leases of trainers that are gone to others."""
        if self._busy:  # the question to the servers needs the background
            return
        for holder in self._failures.orphaned_holders():
            leases = self._failures.leases_of(holder)
            # A holder that was replaced is fenced by this call. One that was only silent may still push: the lease
            # table counts those rows as repeated.
            arrived = self.progress() if leases else {}
            # Rows that an earlier holder is known to have done are done, whatever a server has forgotten since.
            rows = {lease: arrived.get(lease, (0, 0)) for lease in leases}
            rows = {lease: (max(done, leases[lease]), begun) for lease, (done, begun) in rows.items()}
            self._failures.return_leases(holder, rows)

    def progress(self) -> LeaseRows:
        """How far each lease has come at the servers, which execute nothing of replaced clients after this."""
        pservers = self.pservers
        # The call itself is made without the lock: it may wait for a server that is being restarted, which needs the
        # lock to join.
        with self._state.changed:
            replaced = self._state.incarnations.replaced
        return self.in_background(lambda: pservers.progress(replaced=replaced))

    def order(self, request: ServerRequest, reply: type[R], *, rolling: bool = False) -> list[R]:
        """Have all servers do something."""
        pservers = self.pservers
        return self.in_background(lambda: [answer for answer, _ in pservers.order(request, reply)], rolling=rolling)

    def load(self, checkpoint: str | Path | None, *, rolling: bool = False) -> None:
        """Have all servers load a checkpoint, or begin anew, in the generation of the record."""
        state = self._state
        path = None if checkpoint is None else str(checkpoint)
        if path is not None and path not in self.verified:
            self.in_background(lambda: checkpoint_files.verify(checkpoint_files.read(Path(path))), rolling=rolling)
            self.verified.add(path)
        # Before the order: a server that joins while the others load is told to load the same checkpoint.
        state.lifecycle.served_checkpoint = path
        request = LoadRequest(
            checkpoint=path,
            generation=state.record.generation,
            warm=state.record.warm,
            directory=state.record_file.directory,
        )
        self.order(request, LoadReply, rolling=rolling)

    def close(self) -> None:
        if self._pservers is not None:
            self._pservers.close()
        self._background.shutdown()
