"""Rollback: everybody goes on from the last snapshot, as if nothing since had happened.

In lockstep that is what every death leads to, so that a run ends with the same bits whoever dies. A coordinator that
takes over rolls back, too, if it cannot know what the servers have.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from clickline.progress import Watcher
from clickline.ps.coordinator.state.run_state import RunState
from clickline.ps.coordinator.supervision import RollbackError, Supervision
from clickline.train.checkpoints import checkpoint_files
from clickline.train.monitoring.journal import Journal


class Rollback:
    """Brings servers, trainers and the journal back to the last snapshot."""

    def __init__(self, *, state: RunState, supervision: Supervision, watcher: Watcher, journal: Journal) -> None:
        self._state, self._supervision, self._watcher, self._journal = state, supervision, watcher, journal

    def run(self, *, expected_trainers: Callable[[], int] | None) -> None:
        """Go back, as often as it takes. `expected_trainers`: there or being started, if that is known."""
        while True:
            try:
                self._go_back(expected_trainers)
                return
            except RollbackError:  # a server has died since it had loaded: the one in its place has nothing yet
                continue

    def _go_back(self, expected_trainers: Callable[[], int] | None) -> None:
        state, supervision, cluster = self._state, self._supervision, self._state.job.cluster
        self._watcher.end()
        state.offer(None)
        supervision.await_members(lambda: state.ready(pservers=cluster.pservers, held=True), rolling=True)
        # With the trainers of before, the same steps are taken again. Fewer will do if one does not come back.
        until = time.monotonic() + cluster.warn_after
        supervision.wait(
            lambda: self._all_back(expected_trainers) or (expected_trainers is None and time.monotonic() > until),
            rolling=True,
        )
        supervision.await_members(lambda: state.ready(pservers=0, trainers=1), rolling=True)
        supervision.wait(state.data.nodes_present, rolling=True)
        path = state.record.checkpoint
        checkpoint = None if path is None else checkpoint_files.read(Path(path))
        # First the state: with the new generation, whatever trainers still send for the old one counts for nothing.
        state.rewind(checkpoint)
        record = state.record
        where = "the beginning" if checkpoint is None else checkpoint.path.name
        why = record.faults[-1] if record.faults else "servers and trainers have parted"
        self._watcher.say(f"rolling back to {where} as generation {record.generation}: {why}")
        supervision.load(record.checkpoint, rolling=True)
        state.servers_loaded()
        self._journal.rewind(record.step)

    def _all_back(self, expected_trainers: Callable[[], int] | None) -> bool:
        wanted = self._state.job.cluster.trainers
        if expected_trainers is not None:
            wanted = min(wanted, expected_trainers())
        return len(self._state.members.live("trainer")) >= wanted
