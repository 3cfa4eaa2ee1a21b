"""The coordinator's desk: where everybody's questions are answered, on the wire's threads.

Questions: join, ready, beat, next (work, please), finished, failed, paused, report (batches of a trainer), leave.
"""

from __future__ import annotations

import time
from typing import Any

from clickline.errors import PeerError
from clickline.ps.messages import pack, unpack
from clickline.train.cluster.showing import Shown
from clickline.train.cluster.tallies import Arrays

_MOMENT = 2.0
"""Seconds that a question may wait for an answer before it is asked again."""


class Desk(Shown):
    """Answers from the state of affairs, and changes it."""

    def handle(self, name: str, client: int, op: str, body: memoryview) -> list[Any]:
        """One question, on one of the wire's threads."""
        answer = getattr(self, f"_on_{op}", None)
        if answer is None:
            raise PeerError(f"the coordinator knows no {op!r}")
        facts, arrays = unpack(body)
        with self.changed:
            reply: dict[str, Any] = answer(facts, arrays)
        return pack(reply)

    def _on_join(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        if not self.changed.wait_for(lambda: self._opened or self._stop, _MOMENT):
            return {"wait": "the coordinator"}
        peer, old = self.roster.add(facts)
        if old is not None:  # its work is not the new one's, although the name is
            self._died(old, "was replaced by a new process")
        reply = {
            "generation": self.standing.generation,
            "schema": self.schema.to_dict(),
            "checkpoint": self.serves,
            "warm": self.standing.warm,
            "hold": False,
        }
        if peer.role == "pserver":
            served = facts.get("generation")
            if served == self.standing.generation:
                peer.ready = True  # it has been serving all along, and it is we who are new
            if not self.begun:
                self.strangers |= {peer.name} if served is None else set()
                self.stale |= served not in (None, self.standing.generation)
            was_gone = self._gone.pop(peer.name, None) is not None
            if old is not None or was_gone:
                self.moved(peer.rank, peer.address)
                self._fault(f"{peer.name} came back")
                reply["hold"] = self.sync and self.begun and not self.final
                if reply["hold"]:
                    self.rollback_wanted = True
        else:
            servers = self.job.cluster.pservers
            if not self.changed.wait_for(lambda: self.ready(pservers=servers) or self._stop, _MOMENT):
                return {"wait": ", ".join(self.missing()) or "the servers"}
            if not facts.get("again"):
                self._still.add(peer.client)  # it builds its model, and changes nothing before it asks for work
            reply["pservers"] = [p.address for p in self.roster.live("pserver")]
            reply["step"] = self.standing.step
        self._tell()
        return reply

    def _on_ready(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        peer = self.roster.peers.get(facts["client"])
        if peer is not None:
            peer.ready = True
        self._tell()
        return {}

    def _on_beat(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        known = self.roster.peers.get(facts["client"])
        lost = 0 if known is None else known.lost
        peer = self.roster.hear(facts["client"], facts["stats"])
        if peer is None:
            return {"unknown": True}
        self._hear(peer, lost)
        self.announced.wait_for(lambda: self._version != facts["heard"] or self._stop, self.job.cluster.heartbeat)
        self.roster.hear(facts["client"], facts["stats"])
        return {
            "version": self._version,
            "pause": self._pausing,
            "stop": self._stop,
            "generation": self.standing.generation,
        }

    def _on_next(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        """Work for a trainer; nothing if there is none at the moment.

        `left`: the round in which it has no more data. `holding`: it has something to send first if there is no work.
        """
        client = facts["client"]
        peer = self.roster.peers.get(client)
        if peer is None or peer.state == "dead":
            return {"do": "join"}
        deadline = time.monotonic() + _MOMENT
        if not facts.get("holding"):  # it holds back differences, and must not be taken for still
            self._still.add(client)
            self.changed.notify_all()
        try:
            while self._stop is None:
                lockstep = self.sync and self.offered == "train"
                holder = peer.name if lockstep else peer.holder
                now = [self.standing.generation, self.standing.epoch]
                waiting = self._pausing or self.rollback_wanted or holder in self._dead
                if self.offered is not None and not waiting:
                    lease = self.book.take(holder)
                    if lease is None and lockstep and facts.get("left") != now:
                        self._reached[client] = 1 << 62
                        self._still.discard(client)  # until the servers know that it has left the round
                        return {"do": "wait", "drained": now, "generation": self.standing.generation}
                    if lease is not None:
                        self._still.discard(client)
                        self._remember()
                        piece = self.pieces[lease.piece]
                        return {
                            "do": self.offered,
                            "lease": lease.number,
                            "skip": lease.skip,
                            "piece": [piece.number, piece.file, piece.path, piece.begin, piece.end],
                            "epoch": self.standing.epoch,
                            "generation": self.standing.generation,
                            "start": self._start,
                        }
                if facts.get("holding"):
                    break
                if not self.changed.wait(max(deadline - time.monotonic(), 0.0)) and time.monotonic() >= deadline:
                    break
        finally:
            if self._stop is not None:
                self._leaving.add(client)
        return (
            {"do": "stop", "why": self._stop} if self._stop else {"do": "wait", "generation": self.standing.generation}
        )

    def _on_finished(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        if facts["generation"] != self.standing.generation:
            return {"counted": False}
        held = next((h for h in self.book.active if h.lease.number == facts["lease"]), None)
        if held is not None and "labels" in arrays:
            self.scores.add(held.lease.piece, arrays)
        counted = self.book.finish(facts["lease"], facts["rows"])
        self._remember()
        self.changed.notify_all()
        return {"counted": counted}

    def _on_failed(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        """A trainer cannot go on: the run ends with its reason."""
        self._fault(facts["reason"])
        self.stop(facts["reason"])
        return {}

    def _on_paused(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        """A trainer stands still with nothing under way, and may go on when the cut is done."""
        client = facts["client"]
        if facts["generation"] != self.standing.generation:
            return {"generation": self.standing.generation}
        for lease, rows in facts["progress"]:
            self.book.progress(lease, rows)
        if arrays and facts["rank"] == min((p.rank for p in self.roster.live("trainer")), default=0):
            self.buffers = {name: array.copy() for name, array in arrays.items()}
        if self.sync and facts["step"] >= self._next_cut:
            self._pausing = True
        self._still.add(client)
        self.changed.notify_all()
        waited = self.changed.wait_for(
            lambda: not self._pausing or self._stop or facts["generation"] != self.standing.generation, _MOMENT
        )
        if waited:
            self._still.discard(client)
        enough = 0 < self.job.train.max_steps <= self.standing.step
        return {"wait": not waited, "abandon": enough, "generation": self.standing.generation}

    def _on_report(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        """Batches that a trainer has trained."""
        if facts["generation"] != self.standing.generation:
            return {}
        standing, rows = self.standing, int(arrays["sizes"].sum())
        standing.rows += rows
        standing.tick = max(standing.tick, facts["tick"])
        if self.sync:
            self._reached[facts["client"]] = facts["step"]
            standing.step = max(standing.step, facts["step"] + 1)
        else:
            standing.step += len(arrays["losses"])
        self.intervals.add(arrays)
        self.write_lines()
        self.changed.notify_all()
        return {}

    def _on_leave(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        peer = self.roster.peers.get(facts["client"])
        if peer is not None and self._stop is None:
            self._died(peer, "left")
        elif peer is not None:
            self._leaving.add(peer.client)
            peer.state = "done"
        self.changed.notify_all()
        return {}
