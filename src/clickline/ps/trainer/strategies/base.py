"""What all strategies have in common: a strategy turns batches into steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping

from clickline.config import Job
from clickline.data.batch import Batch
from clickline.ps.trainer.model_replica import ModelReplica, RemoteTable
from clickline.ps.trainer.pserver_client import PserverClient
from clickline.train.learner import Learned
from clickline.train.sparse import Pulled

Step = tuple[Batch, int, Learned]
"""A batch, how many rows of its piece are done with it, and what was learned."""


class GenerationOverError(Exception):
    """Raised when the servers have gone back to a checkpoint: what this trainer is doing is void."""


class TrainerStrategy(ABC):
    """One trainer's share in the training. It may hold gradients back; `flush` sends them."""

    def __init__(
        self, *, job: Job, replica: ModelReplica, pservers: PserverClient, tables: dict[str, RemoteTable], rank: int
    ) -> None:
        self.job, self.replica, self.pservers, self.tables, self.rank = job, replica, pservers, tables, rank
        self.step = 0
        self.tick = 0
        """The time that rows are stamped with: of the log if it has one, else steps of all trainers together."""
        self.generation = 0
        self.lease = 0

    def begin(self, *, generation: int, start: int, warm: bool) -> None:
        """Begin an epoch, or a generation from a checkpoint, at step `start` of all trainers together.

        `warm`: the run began with given weights, from which the servers restart rows.
        """
        self.generation = generation
        self.step = max(self.step, start // self.job.cluster.trainers)  # rows of a run before have its ticks

    def refresh(self) -> None:
        """Take the dense parameters as the servers have them now."""
        self.replica.take(self.pservers.dense())

    @abstractmethod
    def steps(self, batches: Iterator[tuple[Batch, int]], *, lease: int) -> Generator[Step, None, None]:
        """Learn from each batch in turn."""

    @abstractmethod
    def flush(self) -> None:
        """Send what is held back, and wait until everything sent has arrived."""

    def end_piece(self) -> None:
        """A piece is done; its last rows need not wait for those of the next."""
        self.flush()

    def leave_round(self, *, generation: int) -> None:  # noqa: B027  (only lockstep has others that wait)
        """There is no more data for this trainer in this epoch: have the others go on without it."""

    @property
    def settled(self) -> bool:
        """Whether everything learned so far has arrived at the servers."""
        return True

    @property
    def queue(self) -> int:
        """Batches whose gradients are under way."""
        return 0

    @abstractmethod
    def abandon(self) -> None:
        """Drop what is under way: its lease is void."""

    def close(self) -> None:
        self.abandon()

    def learn(self, batch: Batch, pulled: Mapping[str, Pulled]) -> Learned:
        """One step on the replica: gradients are left in it and in the pulled tensors."""
        learned = self.replica.compute(batch, pulled, step=self.step)
        self.step += 1
        trainers = self.job.cluster.trainers
        self.tick = self.step * trainers if batch.times is None else max(int(batch.times.max()), self.tick)
        return learned
