"""The trainer: asks for pieces of the data, learns from them the job's way, and reports.

It owns nothing that cannot be lost: rows and parameters live on the servers, and what of its piece has arrived there
is known there. So it may be killed at any time, and another goes on with its piece.
"""

from __future__ import annotations

import logging
import resource
import time
from typing import Any

import numpy as np
import torch

from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.leasing.pieces import Piece, piece_batches
from clickline.data.schema import Schema
from clickline.errors import ClicklineError, PeerError
from clickline.ps.coordinator_client import Member
from clickline.ps.trainer.model_replica import Network, Remote
from clickline.ps.trainer.pserver_client import Lines
from clickline.ps.trainer.strategies.async_ import Async, HalfAsync
from clickline.ps.trainer.strategies.geo import Geo
from clickline.ps.trainer.strategies.sync import GenerationOver, Sync
from clickline.train.evaluation.evaluation import EVALUATION_BATCH
from clickline.train.learner import Learned

log = logging.getLogger("clickline.trainer")
_REPORT_EVERY = 1.0
_WAYS: dict[str, type[Async]] = {"async": Async, "half_async": HalfAsync, "sync": Sync, "geo": Geo}


class Trainer:
    """One of the trainers of a job."""

    def __init__(
        self, *, job: Job, schema: Schema, member: Member, pservers: list[str], token: bytes, threads: int
    ) -> None:
        torch.set_num_threads(threads)
        self.job, self.schema, self.member = job, schema, member
        self.lines = Lines(job=job, addresses=pservers, token=token, name=member.name, client=member.client)
        tables: dict[str, Remote] = {}
        self.network = Network(job=job, schema=schema, tables=tables, threads=threads)
        for number, name in enumerate(self.network.model.tables):
            tables[name] = Remote(self.lines.pulling, number, wire=job.cluster.wire)
        self.way = _WAYS[job.way](job=job, network=self.network, lines=self.lines, tables=tables, rank=member.rank)
        self._epoch = (-1, -1)
        self._last_step = 0
        """With which the run ends; 0 if there is no limit."""
        self._left: list[int] | None = None
        """Generation and epoch of the round that this trainer has left for want of data."""
        self._unsettled: list[dict[str, int]] = []
        """Pieces that are done here, but perhaps not yet at the servers."""
        self._batches: list[tuple[Batch, Learned, int]] = []
        self._reported = time.monotonic()
        self._rate = 0.0
        self._rows = self._steps = 0
        member.stats = self.stats
        member.on_stop = self._hurry
        member.follow_servers(self.lines.follow)

    def run(self) -> None:
        """Until the coordinator says that it is over."""
        while True:
            if self.member.failure is not None:
                raise self.member.failure
            facts = {
                "client": self.member.client,
                "left": self._left,
                "holding": bool(self._unsettled),
                "leases": [one["lease"] for one in self._unsettled],
            }
            # Once: an answer that is lost on the way has a lease in it.
            work, _ = self.member.ask("next", facts, once=True, patience=2.0)
            kind = work["do"]
            if kind == "stop":
                return
            if kind != "train" and self._unsettled:
                self.way.flush()
                self._settle()
            if kind == "join":
                self.member.join()
            elif kind == "wait":
                if work.get("drained"):
                    self._leave(work["drained"])
            elif kind == "train":
                self._train(work)
            else:
                self._evaluate(work)

    def stats(self) -> dict[str, Any]:
        """For the coordinator and whoever watches."""
        return {
            "rows": self._rows,
            "steps": self._steps,
            "rows_per_second": round(self._rate, 1),
            "queue": self.way.queue,
            "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            **self.lines.counters(),
        }

    def close(self) -> None:
        self.way.close()
        self.lines.close()

    def _hurry(self) -> None:
        """It is over: nothing is waited for. For one that was replaced, or has lost the coordinator, nothing works."""
        if self.member.failure is None:
            self.lines.cancel()
        else:
            self.lines.close()

    def _train(self, work: dict[str, Any]) -> None:
        generation, epoch, lease = work["generation"], work["epoch"], work["lease"]
        if (generation, epoch) != self._epoch:
            self._epoch = (generation, epoch)
            # What a trainer draws, for dropout say, follows from the seed and its rank, and is not its neighbour's.
            torch.manual_seed(
                int(np.random.SeedSequence((self.job.seed, self.member.rank, generation, epoch)).generate_state(1)[0])
            )
            self._last_step = work["last_step"]
            self.way.begin(generation=generation, start=work["start"], warm=work["warm"])
        if self.way.settled:
            self.way.refresh()
        piece = Piece(*work["piece"])
        rows = work["skip"]
        batches = piece_batches(
            self.job.data,
            self.schema,
            piece,
            paths=self.job.data.train,
            epoch=epoch,
            seed=self.job.seed,
            batch_size=self.job.train.batch_size,
            shuffle=True,
            skip=rows,
        )
        steps = self.way.steps(batches, lease=lease)
        try:
            for batch, rows, learned in steps:
                self._note(batch, learned)
                if self._pause_due():
                    self.way.flush()
                    self._report()
                    self._settle()
                    if not self._pause(lease, rows, generation):
                        self.way.abandon()
                        return
            self._report()
            self._unsettled.append({"lease": lease, "rows": rows, "generation": generation})
            self.way.end_piece()
            self._settle()
        except GenerationOver:
            log.info("generation %d is over; going back to the last checkpoint", generation)
            self._batches = []
            self.way.abandon()
            self._wait_for_generation(generation)
        finally:
            steps.close()
            batches.close()

    def _settle(self) -> None:
        """Report the pieces of which everything has arrived at the servers."""
        if self.way.settled:
            done, self._unsettled = self._unsettled, []
            for facts in done:
                self.member.ask("finished", facts, once=True)

    def _pause_due(self) -> bool:
        if self.job.way != "sync":
            return bool(self.member.told.get("pause"))
        every, last = self.job.checkpoint.every_steps, self._last_step
        asked = self.member.told.get("pause_at")
        wanted = asked is not None and self.way.step >= asked
        return wanted or (every > 0 and self.way.step % every == 0) or (last > 0 and self.way.step >= last)

    def _pause(self, lease: int, rows: int, generation: int) -> bool:
        """Stand still until the cut is done. False: the lease is void."""
        facts = {
            "client": self.member.client,
            "rank": self.member.rank,
            "progress": [[lease, rows]],
            "generation": generation,
            "step": self.way.step,
        }
        while True:
            reply, _ = self.member.ask("paused", facts, self.network.buffers, patience=2.0)
            if reply["generation"] != generation or reply.get("abandon"):
                return False
            if not reply.get("wait"):
                return True

    def _wait_for_generation(self, old: int) -> None:
        while self.member.told.get("generation", old) == old and not self.member.stopping and not self.member.failure:
            time.sleep(0.02)

    def _leave(self, drained: list[int]) -> None:
        """The others go on without this one, which may never have been in step."""
        if isinstance(self.way, Sync):
            self.way.leave(generation=drained[0])
        self._left = drained

    def _note(self, batch: Batch, learned: Learned) -> None:
        self._batches.append((batch, learned, self.way.step - 1))
        self._rows += len(batch)
        self._steps += 1
        lockstep = self.job.way == "sync" and self.way.step % self.job.train.log_every == 0
        if lockstep or time.monotonic() - self._reported > _REPORT_EVERY:
            self._report()

    def _report(self) -> None:
        if not self._batches:
            return
        batches, self._batches = self._batches, []
        now = time.monotonic()
        self._rate = sum(len(batch) for batch, _, _ in batches) / max(now - self._reported, 1e-3)
        self._reported = now
        arrays = {
            "logits": np.concatenate([learned.logits[:, 0] for _, learned, _ in batches]),
            "labels": np.concatenate([batch.labels[:, 0] for batch, _, _ in batches]),
            "losses": np.array([learned.loss for _, learned, _ in batches]),
            "sizes": np.array([len(batch) for batch, _, _ in batches]),
            "steps": np.array([step for _, _, step in batches]),
        }
        if batches[0][0].weights is not None:
            arrays["weights"] = np.concatenate([batch.weights for batch, _, _ in batches if batch.weights is not None])
        facts = {
            "client": self.member.client,
            "generation": self._epoch[0],
            "step": int(arrays["steps"][-1]),
            "tick": self.way.tick,
        }
        self.member.ask("report", facts, arrays, once=True)

    def _evaluate(self, work: dict[str, Any]) -> None:
        self.network.take(self.lines.dense(want="average"))
        batches = piece_batches(
            self.job.data,
            self.schema,
            Piece(*work["piece"]),
            paths=getattr(self.job.data, work["do"]),
            epoch=0,
            seed=self.job.seed,
            batch_size=EVALUATION_BATCH,
            shuffle=False,
        )
        columns: dict[str, list[Any]] = {"logits": [], "labels": [], "weights": [], "groups": []}
        rows = 0
        for batch, _ in batches:
            columns["logits"].append(self.network.predict(batch))
            columns["labels"].append(batch.labels)
            columns["weights"] += [] if batch.weights is None else [batch.weights]
            columns["groups"] += [] if batch.groups is None else [batch.groups]
            rows += len(batch)
        width = len(self.schema.labels)
        arrays = {name: np.concatenate(parts) for name, parts in columns.items() if parts}
        arrays.setdefault("labels", np.zeros((0, width), np.float32))
        arrays.setdefault("logits", np.zeros((0, width), np.float32))
        facts = {"lease": work["lease"], "rows": rows, "generation": work["generation"]}
        self.member.ask("finished", facts, arrays, once=True)


def complain(member: Member, error: Exception) -> None:
    """Let the coordinator know why this trainer ends, if it is something that would end another one just the same."""
    refused = isinstance(error, PeerError) and "ModelError: " in str(error)  # a server would not learn from it
    if refused or (isinstance(error, ClicklineError) and error.exit_code in (3, 4, 5, 6)):
        member.ask("failed", {"client": member.client, "reason": f"{member.name}: {error}"})
