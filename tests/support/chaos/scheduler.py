"""Carries a plan out: one thread for each lane, each fault when its time has come and its part is whole again.

A part (both replicas of a shard, both workers) is harmed by one fault at a time, and by the next only when everything
in it is up to date again, since what is promised is promised while a replica lives.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from support.chaos.faults.fault import KINDS, NotNow
from support.chaos.plan import PlannedFault
from support.chaos.workload.workload import Workload

WHOLE_WITHIN = 90.0
"""Seconds for a part to be whole again after a fault; then that is a broken promise."""
_LOOK_EVERY = 0.15
_SHORTEST_GAP = 1.0


class Scheduler:
    """`start` it; `end` when the time is over: faults under way are undone first."""

    def __init__(self, plan: Sequence[PlannedFault], workload: Workload) -> None:
        by_lane: dict[str, list[PlannedFault]] = defaultdict(list)
        for fault in plan:
            by_lane[fault.lane].append(fault)
        self._over = threading.Event()
        self._lanes = [_LaneThread(name, faults, workload, self._over) for name, faults in by_lane.items()]

    def start(self) -> None:
        for lane in self._lanes:
            lane.start()

    @property
    def running(self) -> bool:
        return any(lane.is_alive() for lane in self._lanes)

    def tell_end(self) -> None:
        self._over.set()

    def end(self) -> int:
        """How many planned faults did not have their turn."""
        self._over.set()
        for lane in self._lanes:
            lane.join()
        return sum(lane.left for lane in self._lanes)


class _LaneThread(threading.Thread):
    def __init__(self, name: str, faults: Sequence[PlannedFault], workload: Workload, over: threading.Event) -> None:
        super().__init__(name=f"lane {name}", daemon=True)
        self._lane, self._faults, self._workload, self._over = name, faults, workload, over
        self._whole: Callable[[], bool] = workload.whole(name)
        self.left = len(faults)

    def run(self) -> None:
        books, began, earliest = self._workload.books, time.monotonic(), 0.0
        for fault in self._faults:
            # A lane that is late must not make up for it with a burst: nothing would recover in between.
            if self._over.wait(max(0.0, max(began + fault.at, earliest) - time.monotonic())):
                return
            if not self._await_whole(WHOLE_WITHIN):
                if self._over.is_set():
                    return
                books.promise_broken("whole again by itself", f"{self._lane} is not, {WHOLE_WITHIN:g} s later")
            try:
                self._inject(fault)
            except Exception as error:  # of the harness, most likely; it must not end the lane unseen
                books.promise_broken("faults are injected", f"{fault}: {error!r}")
            self.left -= 1
            earliest = time.monotonic() + _SHORTEST_GAP

    def _inject(self, planned: PlannedFault) -> None:
        books, workload = self._workload.books, self._workload
        fault = KINDS[planned.kind](workload, planned.target, planned.seed, self._over)
        label = workload.label(planned)
        books.event(f"{planned.kind}: {planned.target}", planned=round(planned.at, 2), lane=planned.lane)
        training = planned.lane.startswith("training")
        if training:
            workload.await_training(self._over)
            workload.training_hit()
        workload.touched(planned.target)
        try:
            outcome = fault.inject()
        except (NotNow, OSError) as reason:
            if isinstance(reason, OSError) and reason.errno != errno.ENOSPC:  # a disk that another lane has filled
                raise
            books.count(not_now=1)
            books.event(f"{planned.kind}: {planned.target}: not now, {reason}")
            return
        finally:
            workload.touched(planned.target)
            if training:
                workload.training_hit()
        began = time.monotonic()
        whole = self._await_whole(WHOLE_WITHIN)
        recovery = time.monotonic() - began if whole and self._whole is not always else None
        books.injected(label, outcome, recovery=recovery)
        after = f", whole {recovery:.1f} s later" if recovery is not None else ""
        books.event(f"{planned.kind}: {planned.target}: {outcome}{after}")

    def _await_whole(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not self._whole():
            if time.monotonic() > end or self._over.wait(_LOOK_EVERY):
                return False
        return True


def always() -> bool:
    """Of a lane whose faults are not promised to harm anything."""
    return True
