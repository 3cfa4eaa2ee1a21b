"""Takes snapshots: everybody pauses with nothing under way, the servers save, everybody goes on."""

from __future__ import annotations

import time
from pathlib import Path

from clickline.config import Job
from clickline.errors import CheckpointError, ClicklineError
from clickline.progress import Watcher
from clickline.ps.coordinator.state.run_state import RunState
from clickline.ps.coordinator.supervision import RollbackError, Supervision
from clickline.ps.protocol.member_messages import JsonObject
from clickline.train.checkpoints import checkpoint_files
from clickline.train.early_stopping import enough


class SnapshotWriter:
    """Writes checkpoints of the whole run."""

    def __init__(self, *, state: RunState, supervision: Supervision, watcher: Watcher) -> None:
        self._state, self._supervision, self._watcher = state, supervision, watcher
        self._directory = state.directory / "checkpoints"

    @property
    def _job(self) -> Job:
        return self._state.job

    def steps_done(self) -> bool:
        """Whether the run has taken all steps that the job allows."""
        record = self._state.record
        return enough(self._job.train, step=record.step, first_step=record.first_step)

    def saved_step(self) -> int | None:
        """The step of the last snapshot."""
        path = self._state.record.checkpoint
        return None if path is None else checkpoint_files.read(Path(path)).step

    def write(self, *, halt: bool = True, go_on: bool = True) -> None:
        """Take one consistent snapshot. `halt=False`: nobody trains, so nobody need stand still for it.

        `go_on=False`: the run ends with it, and trainers stay paused until they are told to stop.
        """
        state, supervision = self._state, self._supervision
        began = time.monotonic()
        # In lockstep trainers pause by themselves; announcing it keeps those that ask for work from getting any.
        state.pause()
        try:
            if halt:
                supervision.wait(state.all_idle)
            # From here on nothing changes: trainers wait for the pause to end, and every gradient has arrived.
            paused = time.monotonic()
            manifest, buffers, pservers = self._manifest(), state.snapshots.buffers, supervision.pservers
            checkpoint = supervision.in_background(
                lambda: pservers.save(self._directory, manifest=manifest, buffers=buffers)
            )
            now = time.monotonic()
            supervision.verified.add(str(checkpoint.path))
            state.snapshot_taken(checkpoint.path, pause=now - paused, seconds=now - began)
        finally:
            if self.steps_done():  # else a trainer that waits for work would train past the last checkpoint
                state.offer(None)
            # Also after a failure: trainers stay paused until this is announced.
            if go_on:
                state.resume()
        checkpoint_files.prune(
            self._directory,
            newest=checkpoint.step,
            keep=self._job.checkpoint.keep,
            also=state.record.best_step,
            check=state.record_file.check_holder,
        )
        self._watcher.say(
            f"checkpoint of step {checkpoint.step:,}: trainers stood still for {now - paused:.2f} s "
            f"({paused - began:.2f} s to come to a halt)"
        )

    def _manifest(self) -> JsonObject:
        state, record = self._state, self._state.record
        measured = record.valid_step == record.step  # figures of an earlier step are not this checkpoint's
        return {
            "step": record.step,
            "standing": state.record_for_checkpoint(),
            "job": self._job.model_dump(mode="json"),
            "schema": state.schema.to_dict(),
            "valid": record.valid if measured else {},
            "valid_files": record.valid_files if measured else [],
            "tick": record.tick,
        }

    def write_before_interruption(self) -> str:
        """Take a snapshot of a run that is being interrupted, if there is time; empty, or why there is none."""
        state, supervision = self._state, self._supervision
        limit = self._job.checkpoint.interrupt_timeout
        # Otherwise every wait below would raise again for the signal that is being handled.
        supervision.interrupts.acknowledge()
        if not state.lifecycle.begun or state.lifecycle.final or self.saved_step() == state.record.step:
            return ""
        if limit == 0:
            return "checkpoint.interrupt_timeout is 0"
        self._watcher.end()
        self._watcher.say("interrupted: writing a checkpoint; Ctrl+C again ends at once")
        until = time.monotonic() + limit

        def poll_in_time() -> None:
            if time.monotonic() > until:
                raise CheckpointError(f"it took longer than {limit:g} s, checkpoint.interrupt_timeout")
            poll()

        poll = supervision.poll_by(poll_in_time)
        try:
            training = state.leases.trains
            if state.lockstep and training:
                state.pause_soon()
                supervision.wait(lambda: state.leases.table.complete or state.snapshots.due)
            # Predictions change nothing, so trainers that evaluate need not stop. Nobody goes on afterwards: a step
            # that was taken between this checkpoint and the end would be lost.
            self.write(halt=training, go_on=False)
        except (ClicklineError, OSError, RollbackError, KeyboardInterrupt) as error:
            return str(error) or "a process died meanwhile"
        return ""
