"""Processes started, watched, started again and stopped, on one machine.

A process that dies is started again after a growing pause, if its role and the restart policy allow it and its exit
code does not say that it would only fail again. If it is not, the others go on without it where they can. Otherwise
everything is stopped within seconds, and PeerError describes the first failure: which process, why, its last log lines.
A process that ends because another one has its place (exit code 9) is neither started again nor a failure.
A process that has a heartbeat and stands still is killed, and then handled like any other death (`stalled_processes`).

Use a supervisor from one thread, and one that lives as long as the children: Linux ends them together (see `child`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from types import TracebackType
from typing import Self

from clickline.errors import PeerError
from clickline.processes.exit_reasons import HOPELESS, REPLACED, VICTIM, Ending, MemoryKills, failure_text, in_words
from clickline.processes.process import Process, ProcessState, Spec
from clickline.processes.process_events import ProcessChange, ProcessEvent
from clickline.processes.restart_policy import RestartPolicy
from clickline.processes.stalled_processes import kill_stalled, others_of

__all__ = ["Spec", "Supervisor"]

_LAST_LINES = 20
_OTHERS = 5
"""How many other deaths a failure mentions."""
_LOOK_EVERY = 0.02
_SETTLE = 0.3
"""A process that fails because of a peer may be noticed before the peer itself is."""
_LONGEST_PAUSE_ALONE = 0.5
"""Seconds, for a replica when no other runs."""


class Supervisor:
    """Runs `specs`. A context manager: whatever happens inside, nothing is left running afterwards."""

    def __init__(
        self,
        specs: Iterable[Spec],
        *,
        restarts: int | None,
        on_event: Callable[[ProcessEvent], object],
        grace: float = 5.0,
    ) -> None:
        """`restarts` is for specs without a policy of their own: so often, as long as they live; None: without end."""
        self._policy = RestartPolicy(restarts=restarts)
        self._processes = [Process(spec, policy=self._policy) for spec in specs]
        self._on_event = on_event
        self._grace = grace
        self._started = False
        self._failure: PeerError | None = None
        self._memory_kills = MemoryKills()
        self.endings: list[Ending] = []
        """Every death so far, also of processes that were started again."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything. If one cannot be started, none is left running."""
        self._started = True
        try:
            for process in self._processes:
                if process.state == "new":
                    process.start()
        except BaseException:
            self.stop()
            raise

    def add(self, spec: Spec) -> None:
        """One more, such as a trainer that joins later. Its name must be free, or of one that has ended."""
        for old in [process for process in self._processes if process.spec.name == spec.name]:
            if old.alive or old.state in ("new", "waiting"):
                raise PeerError(f"{spec.name} cannot be added: there is one, and it is {old.state}")
            self._processes.remove(old)
        process = Process(spec, policy=self._policy)
        self._processes.append(process)
        if self._started:
            process.start()
            self._report(ProcessChange.JOINED, process, f"joins as process {process.pid}")

    def poll(self) -> None:
        """Look after everything once; call it a few times a second. Raises PeerError when things cannot go on."""
        # Everything was stopped then; another poll must not start some of it again.
        if self._failure is not None:
            raise self._failure
        self._memory_kills.look()
        fatal = self._note_deaths()
        if fatal:
            # Processes that fail because of a peer may end before the peer does. The error should name the peer, so
            # it gets a moment to end as well.
            if all(ending.code == VICTIM for ending in fatal):
                time.sleep(_SETTLE)
                fatal += self._note_deaths()
            raise self._fail(fatal)
        now = time.monotonic()
        for process in self._processes:
            if process.state == "waiting" and now >= process.starts_again:
                try:
                    process.start()
                except PeerError as error:
                    self._failure = error
                    self.stop()
                    raise
                self._report(ProcessChange.RESTARTED, process, f"is back as process {process.pid}")
        for process in kill_stalled(self._processes):
            text = f"has stood still for {process.stood_still:.0f} s and is killed"
            self._report(ProcessChange.STALLED, process, text)

    def finished(self, roles: str | Collection[str] | None = None) -> bool:
        """Whether every process of these roles, or of all, has ended for good."""
        return not any(process.alive or process.state in ("new", "waiting") for process in self._of(roles))

    def wait(self, roles: str | Collection[str] | None = None, *, every: float = 0.05) -> None:
        """Poll until every process of these roles, or of all, has done its work."""
        while True:
            self.poll()
            if self.finished(roles):
                return
            time.sleep(every)

    def states(self) -> list[ProcessState]:
        """What each process is doing."""
        return [process.description() for process in list(self._processes)]

    def stop(self, roles: str | Collection[str] | None = None) -> None:
        """Stop the processes of these roles, or all: asked first, killed when the grace is over."""
        self._stop(self._of(roles))

    def remove(self, names: Collection[str]) -> None:
        """Stop processes that are not needed any more, and forget them."""
        chosen = [process for process in self._processes if process.spec.name in names]
        self._stop(chosen)
        self._processes = [process for process in self._processes if process not in chosen]

    def _stop(self, chosen: list[Process]) -> None:
        # All are asked before any is waited for, so that the grace is one for all.
        for process in chosen:
            # There is no process to signal; the new state keeps `poll` from starting one.
            if process.state in ("new", "waiting"):
                process.enter("stopped")
            process.terminate()
        try:
            self._reap(chosen, until=time.monotonic() + self._grace)
        finally:  # also when Ctrl+C comes again: then the rest is killed at once
            for process in chosen:
                if process.alive:
                    self._report(ProcessChange.KILLED, process, f"did not stop within {self._grace:g} s and is killed")
                    process.kill()
            self._reap(chosen, until=time.monotonic() + self._grace)

    def _report(self, change: ProcessChange, process: Process, text: str) -> None:
        self._on_event(ProcessEvent(change, process.spec.name, f"{process.spec.name} {text}"))

    def _of(self, roles: str | Collection[str] | None) -> list[Process]:
        wanted = {roles} if isinstance(roles, str) else roles
        return [process for process in self._processes if wanted is None or process.spec.role in wanted]

    def _reap(self, processes: list[Process], *, until: float) -> None:
        while True:
            for process in processes:
                if (code := process.ended()) is not None:
                    process.reason = in_words(code)
                    process.enter("done" if code == 0 else "stopped")
            if not any(process.alive for process in processes) or time.monotonic() >= until:
                return
            time.sleep(_LOOK_EVERY)

    def _note_deaths(self) -> list[Ending]:
        """Note which processes have ended and schedule restarts; gives the deaths that nothing can mend."""
        fatal = []
        for process in self._processes:
            pid = process.pid or 0  # `ended` forgets it
            code = process.ended()
            if code is None:
                continue
            if code == 0:
                process.reason = in_words(0)
                process.enter("done")
                continue
            # Counted before the decision below: `may_start_again` compares the deaths so far, this one included.
            process.deaths.died()
            ending = self._ending(process, code, pid)
            process.reason = ending.reason
            if code == REPLACED:
                # A process of the same name, started elsewhere, has its place: a restart would only make two of them.
                process.enter("replaced")
                text = "was replaced by a process that was not started here; it goes on there"
                self._report(ProcessChange.REPLACED, process, text)
            elif process.spec.restart and process.deaths.may_start_again and code not in HOPELESS:
                pause, limit = self._pause(process), process.deaths.policy.restarts
                process.starts_again = time.monotonic() + pause
                process.enter("waiting")
                often = "" if limit is None else f", {process.deaths.count} of {limit} times"
                text = f"died, {ending.reason}; it is started again in {pause:g} s{often}"
                self._report(ProcessChange.DIED, process, text)
            else:
                process.enter("failed")
                of_role = self._of(process.spec.role)
                others = [each for each in of_role if each.alive or each.state in ("new", "waiting")]
                # A hopeless code (a wrong job, damaged data) would meet the others of the role as well.
                if process.spec.spare and others and code not in HOPELESS:
                    text = f"failed, {ending.reason}; {len(others)} go on without it"
                    self._report(ProcessChange.FAILED, process, text)
                else:
                    fatal.append(ending)
            self.endings.append(ending)
        return fatal

    def _pause(self, process: Process) -> float:
        others = others_of(process, self._processes)
        if others and not any(other.alive for other in others):
            return min(process.deaths.pause, _LONGEST_PAUSE_ALONE)  # until it is back, its share cannot be answered
        return process.deaths.pause

    def _ending(self, process: Process, code: int, pid: int) -> Ending:
        # Out of memory looks like any SIGKILL; only the kernel's counters tell.
        starved = code in (-9, 137) and self._memory_kills.recent()
        reason = in_words(code, out_of_memory=starved)
        if process.stood_still:
            reason = f"stood still for {process.stood_still:.0f} s and was killed"
        return Ending(
            name=process.spec.name,
            code=code,
            reason=reason,
            time=time.time(),
            tail=process.last_log_lines(_LAST_LINES),
            pid=pid,
        )

    def _fail(self, fatal: list[Ending]) -> PeerError:
        # The cause comes first: a process that did not fail because of another. Among equals `min` keeps the order in
        # which they were noticed.
        first = min(fatal, key=lambda ending: ending.code == VICTIM)
        self.stop()
        process = next(process for process in self._processes if process.spec.name == first.name)
        others = [ending for ending in self.endings if ending is not first][-_OTHERS:]
        text = failure_text(first, others, restarts=process.starts - 1, log=process.spec.log)
        self._failure = PeerError(text)
        return self._failure
