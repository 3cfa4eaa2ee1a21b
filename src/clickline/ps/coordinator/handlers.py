"""The coordinator's desk: where everybody's questions are answered, on the wire's threads.

Questions: join, ready, beat, next (work, please), finished, failed, paused, report (batches of a trainer), leave.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from clickline.data.leasing.leases import Lease
from clickline.errors import PeerError
from clickline.ps.coordinator.incarnations import describe
from clickline.ps.coordinator.metric_windows import Arrays
from clickline.ps.coordinator.status_output import Shown
from clickline.ps.messages import pack, unpack

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
        facts.setdefault("client", client)
        with self.changed:
            if facts.get("writer_epoch", 0) > self.writer_epoch:
                self.overtake(f"{name} follows a newer coordinator: this one was replaced")
            reply: dict[str, Any] = {}
            if self._overtaken is None and (why := self.incarnations.replacement_of(client)) is None:
                reply = answer(facts, arrays)
                why = self.incarnations.replacement_of(client)  # it may have waited, and been replaced meanwhile
            if self._overtaken is not None:
                reply = {"overtaken": True}
            elif why is not None:
                reply = {"replaced": why}
        return pack({**reply, "writer_epoch": self.writer_epoch})

    def _on_join(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        if not self.changed.wait_for(lambda: self._opened or self._stop, _MOMENT):
            return {"wait": "the coordinator"}
        # A name may become free at any moment: whoever started the holder knows of its death first.
        self.changed.wait_for(lambda: "held" not in (self.incarnations.refusal(facts) or {}), _MOMENT)
        refusal = self.incarnations.refusal(facts)
        if refusal is not None:
            return refusal
        incarnation, new = self.incarnations.admit(facts)
        peer, old = self.roster.add(facts, incarnation=incarnation)
        if old is not None:  # its work is not the new one's, although the name is
            dead = facts.get("seen_dead") == old.client
            self._died(old, "died" if dead else f"was replaced by {describe(peer)}", blame=dead)
        self._buried = [client for client in self._buried if client != peer.client]
        if new:
            self._save()
        reply = {
            "incarnation": incarnation,
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
            reply["replaced_clients"] = self.incarnations.replaced
            self.servers.put(peer.rank, peer.address, incarnation)
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
            if self._stop is not None:  # there may be no server left to train with
                return {"over": self._stop}
            if not self.roster.lives(peer):
                return {"wait": "the coordinator, which took this process for dead meanwhile"}
            if not facts.get("again"):
                self._still.add(peer.client)  # it builds its model, and changes nothing before it asks for work
            reply["pservers"] = [p.address for p in self.roster.live("pserver")]
            reply["servers"] = self.servers.to_dict()
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
        self.announced.wait_for(
            lambda: self._version != facts["heard"] or self._stop or not self.roster.lives(peer),
            self.job.cluster.heartbeat,
        )
        if not self.roster.lives(peer):
            return {"unknown": True}
        reply: dict[str, Any] = {
            "version": self._version,
            "pause": self._pausing,
            "pause_at": self.pause_at,
            "stop": self._stop,
            "generation": self.standing.generation,
        }
        if peer.role == "trainer" and facts.get("servers") != self.servers.version:
            reply["servers"] = self.servers.to_dict()
        return reply

    def _on_next(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        """Work for a trainer; nothing if there is none at the moment.

        `left`: the round in which it has no more data. `holding`: it has something to send first if there is no work.
        `leases`: those that it knows of; one that it holds without knowing, because the answer was lost, is offered
        again.
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
                if not self.roster.lives(peer):  # it died while this question waited: nothing is for it any more
                    return {"do": "join"}
                lockstep = self.sync and self.offered == "train"
                holder = peer.name if lockstep else peer.holder
                now = [self.standing.generation, self.standing.epoch]
                waiting = self._pausing or self.rollback_wanted or holder in self._dead
                if self.offered is not None and not waiting:
                    lease = self._unheard(holder, facts.get("leases")) or self.book.take(holder)
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
                            "last_step": self.last_step,
                            "warm": self.standing.warm is not None,
                        }
                if facts.get("holding"):
                    break
                if not self.changed.wait(max(deadline - time.monotonic(), 0.0)) and time.monotonic() >= deadline:
                    break
        finally:
            if not self.roster.lives(peer):
                self._still.discard(client)
            elif self._stop is not None:
                self._leaving.add(client)
        return (
            {"do": "stop", "why": self._stop} if self._stop else {"do": "wait", "generation": self.standing.generation}
        )

    def _unheard(self, holder: str, known: list[int] | None) -> Lease | None:
        held = [] if known is None else [h for h in self.book.active if h.holder == holder]
        unheard = next((h for h in held if h.lease.number not in (known or [])), None)
        return None if unheard is None else replace(unheard.lease, skip=unheard.rows)

    def _on_finished(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        if facts["generation"] != self.standing.generation or not self.incarnations.admitted(facts["client"]):
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
        if not self.incarnations.admitted(facts["client"]):
            return {}
        self._fault(facts["reason"])
        self.stop(facts["reason"])
        return {}

    def _on_paused(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        """A trainer stands still with nothing under way, and may go on when the cut is done."""
        client = facts["client"]
        if facts["generation"] != self.standing.generation:
            return {"generation": self.standing.generation}
        peer = self.roster.peers.get(client)
        if self.incarnations.admitted(client):
            for lease, rows in facts["progress"]:
                self.book.progress(lease, rows)
        if peer is None or not self.roster.lives(peer):  # what it has was given to others
            return {"wait": False, "abandon": True, "generation": self.standing.generation}
        if arrays and facts["rank"] == min((p.rank for p in self.roster.live("trainer")), default=0):
            self.buffers = {name: array.copy() for name, array in arrays.items()}
        if self.sync and facts["step"] >= self._next_cut:
            self._pausing = True
        self._still.add(client)
        self.changed.notify_all()
        waited = self.changed.wait_for(
            lambda: (
                not self._pausing
                or self._stop
                or facts["generation"] != self.standing.generation
                or not self.roster.lives(peer)
            ),
            _MOMENT,
        )
        if waited:
            self._still.discard(client)
        if not self.roster.lives(peer):
            return {"wait": False, "abandon": True, "generation": self.standing.generation}
        enough = 0 < self.last_step <= self.standing.step
        return {"wait": not waited, "abandon": enough, "generation": self.standing.generation}

    def _on_report(self, facts: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        """Batches that a trainer has trained."""
        if facts["generation"] != self.standing.generation or not self.incarnations.admitted(facts["client"]):
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
            self._died(peer, "left", blame=False)
            self.incarnations.retire(peer.client, f"{peer.name} has left")
        elif peer is not None:
            self._leaving.add(peer.client)
            peer.state = "done"
        self.changed.notify_all()
        return {}
