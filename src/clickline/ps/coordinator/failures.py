"""Deaths: who is gone, what becomes of their work, what was lost with them."""

from __future__ import annotations

import time
from typing import Any

from clickline.ps.coordinator.members import Peer
from clickline.ps.coordinator.state import Affairs, log

_MOST_FAULTS = 200


class Deaths(Affairs):
    """Affairs in which processes may die."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self._buried: list[int] = []
        self._news: list[str] = []

    def died(self, role: str, rank: int, why: str, *, pid: int = 0) -> None:
        """Whoever started a process says that it is gone; the name may be another one's by now, which lives."""
        with self.changed:
            peer = self.roster.named(role, rank)
            if peer is not None and pid in (0, peer.pid):
                self._died(peer, why, known=True)
                self.incarnations.retire(peer.client, f"{peer.name} {why}")

    def look(self) -> None:
        """Notice the silent, and leases that nobody can finish."""
        with self.changed:
            slow, dead = self.roster.watch()
            for peer in slow:
                log.warning(
                    "%s has been silent for %.0f s; slow is not dead, waiting", peer.name, self.job.cluster.warn_after
                )
            for peer in dead:
                self._died(peer, f"was silent for {self.job.cluster.evict_after:.0f} s")
            self._return_orphans()

    def _return_orphans(self) -> None:
        """Take back leases whose holders take no part, whatever the cause: else an epoch would wait for ever."""
        if not self.begun or self._stop is not None:
            return
        living = {name for peer in self.roster.live("trainer") for name in (peer.name, peer.holder)}
        for holder in {held.holder for held in self.book.active} - living - self._dead.keys():
            if Peer.client_of(holder) is None:  # lockstep, in which all go back when one is lost
                self.rollback_wanted |= not self.final
                continue
            log.warning("%s holds a lease and is no living member: its pieces are given to others", holder)
            self._dead[holder] = False

    def anybody_well(self) -> bool:
        with self.changed:
            return any(peer.state == "well" for peer in self.roster.peers.values())

    def absent(self, patience: float) -> str | None:
        """A server that has been gone for too long, or all trainers."""
        now = time.monotonic()
        with self.changed:
            if self.begun and not self.roster.live("trainer"):
                self._gone.setdefault("the last trainer", now)
            else:
                self._gone.pop("the last trainer", None)
            return next((name for name, since in self._gone.items() if now - since > patience), None)

    def all_dead(self) -> list[str]:
        """Holders whose leases are to be given to others."""
        with self.changed:
            return list(self._dead)

    def presume_dead(self) -> None:
        """A new coordinator has waited for those who hold leases; whoever did not come will not."""
        with self.changed:
            here = {p.holder for p in self.roster.live("trainer")}
            for holder in {held.holder for held in self.book.active} - here:
                self._fault(f"{holder} was gone when the new coordinator came")
                self._dead[holder] = True
                # It may be somewhere behind a cut, with leases of a coordinator that was cut off as well.
                if (client := Peer.client_of(holder)) is not None:
                    self.incarnations.retire(client, f"{holder} was given up")

    def holders_here(self) -> bool:
        """Whether everybody who holds a lease has joined."""
        return {held.holder for held in self.book.active} <= {p.holder for p in self.roster.live("trainer")}

    def leases_of(self, holder: str) -> dict[int, int]:
        """The rows at which each lease of a holder began."""
        with self.changed:
            return {held.lease.number: held.lease.skip for held in self.book.active if held.holder == holder}

    def bury(self, holder: str, progress: dict[int, tuple[int, int]]) -> None:
        """A dead trainer's pieces go back, to be resumed where its pushes had come everywhere."""
        with self.changed:
            for lease, (_, most) in progress.items():
                self.book.progress(lease, most)
            done = {lease: least for lease, (least, _) in progress.items()}
            for lost in self.book.lose(holder, done=done, blame=self._dead.get(holder, True)):
                text = (
                    f"piece {lost.piece} has taken down {self.job.cluster.piece_attempts} trainers and is set aside"
                    if lost.set_aside
                    else f"piece {lost.piece} goes on at row {lost.rows:,} elsewhere, {lost.repeated:,} rows again"
                )
                self._fault(f"{holder} is gone: {text}")
            self._dead.pop(holder, None)
            self._remember()
            self._tell()

    def settle(self, progress: dict[int, tuple[int, int]]) -> None:
        """What arrived at the servers from leases that had been lost by then: rows that others have trained as well."""
        with self.changed:
            for lease, (_, most) in progress.items():
                self.book.progress(lease, most)

    def forgotten(self) -> list[int]:
        """Clients that have died since this was asked last, and cannot come back."""
        with self.changed:
            gone = [client for client in self._buried if self.incarnations.replacement_of(client) is not None]
            self._buried = [client for client in self._buried if client not in gone]
            return gone

    def replaced(self) -> list[int]:
        """Clients of which servers are to execute nothing any more."""
        with self.changed:
            return self.incarnations.replaced

    def lost_pushes(self) -> int:
        """Pushes that were applied by a server before it died, and are not in what it loaded."""
        return 0 if self.sync else self.standing.lost_pushes + sum(p.lost for p in self.roster.peers.values())

    def retries(self) -> int:
        """Requests that trainers had to send again."""
        return self.standing.retries + sum(int(p.stats.get("retries", 0)) for p in self.roster.peers.values())

    def _hear(self, peer: Peer, lost_before: int) -> None:
        lost = peer.lost - lost_before
        if lost > 0 and not self.sync:
            self._fault(f"{peer.name} lost {lost:,} pushes that were made after the checkpoint it came back with")

    def _died(self, peer: Peer, why: str, *, known: bool = False, blame: bool = True) -> None:
        if peer.state == "dead":
            return
        peer.state, peer.ready = "dead", False
        self._still.discard(peer.client)
        if self._stop is not None or peer.client in self._leaving:
            return
        self._fault(f"{peer.name} {why}", known=known)
        self.standing.lost_pushes += peer.lost
        self.standing.retries += int(peer.stats.get("retries", 0))
        peer.stats = {}
        if peer.role == "trainer":
            self._dead[peer.holder] = blame
            self._buried.append(peer.client)
            self._reached.pop(peer.client, None)
        else:
            self._gone[peer.name] = time.monotonic()
        if self.sync and not self.final and self.begun:
            self.rollback_wanted = True
        self._tell()

    def news(self) -> list[str]:
        """Faults that nobody has said yet."""
        with self.changed:
            news, self._news = self._news, []
            return news

    def _fault(self, text: str, *, known: bool = False) -> None:
        self.standing.faults.append(text)
        del self.standing.faults[:-_MOST_FAULTS]  # it is all written with every lease
        self._news += [] if known else [text]
        log.info(text)  # the watcher says it where somebody watches
