"""When a snapshot is due, and which trainers stand still for it.

A snapshot is consistent because nothing is under way while it is taken: every trainer has come to a halt with all its
gradients at the servers, and says so by asking for work or by `paused`. Without lockstep they are told to pause at
once. In lockstep they pause by themselves at steps that follow from the job, or at `pause_at`, so that all of them
stop after the same step.
"""

from __future__ import annotations

from clickline.config import Job
from clickline.ps.coordinator.state.record import RunRecord
from clickline.ps.protocol.framing import Arrays
from clickline.train.early_stopping import last_step

_NEVER = 1 << 62


class SnapshotSchedule:
    """Not locked: the run's state, which owns it, is."""

    def __init__(self, *, job: Job, record: RunRecord, lockstep: bool) -> None:
        self._job, self._record, self._lockstep = job, record, lockstep
        self.pausing = False
        """Trainers should stand still."""
        self.pause_at: int | None = None
        """The step at which trainers in lockstep should pause, beside those that follow from the job."""
        self.idle: set[int] = set()
        """Client numbers of trainers that stand still: paused, or waiting for work."""
        self.buffers: Arrays = {}
        """The model's buffers, as the trainer of the lowest rank had them when it paused."""
        self.next_step = 0
        self.plan_next()

    def plan_next(self) -> None:
        """The next snapshot is due by the job's interval, or with the last step of the run."""
        step, every, last = self._record.step, self._job.checkpoint.every_steps, self.last_step
        following = (step // every + 1) * every if every else _NEVER
        self.next_step = min(following, last) if step < last else following

    @property
    def last_step(self) -> int:
        """The step with which the run ends; 0 if the job does not limit steps."""
        return last_step(self._job.train, first_step=self._record.first_step)

    @property
    def due(self) -> bool:
        """In lockstep, trainers have begun to pause; else enough steps were taken."""
        return self.pausing if self._lockstep else self._record.step >= self.next_step

    def pause_soon(self, *, reached: list[int], trainers: int, rate: float) -> None:
        """Have trainers in lockstep pause at one step, far enough ahead for all of them to hear of it.

        `reached`: the last step that each has reported; `rate`: rows a second, of all of them.
        """
        # `rate / rows` is the number of steps in a second, the time that the announcement gets to arrive; where steps
        # take longer, two steps.
        rows = self._job.train.batch_size * max(trainers, 1)
        self.pause_at = self.next_step = max(self._record.step, *reached, 0) + 2 + int(rate / rows)
