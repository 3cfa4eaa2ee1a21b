"""Connections that are broken off, that say nothing any more, and that are slow."""

from __future__ import annotations

from support.chaos.faults.fault import Fault, NotNow


class LinkFault(Fault):
    """Something is done to a link for a while, and undone."""

    def link(self) -> str:
        if not self.workload.links.known(self.target):
            raise NotNow(f"{self.target} has no link now")
        return self.target


class Cut(LinkFault):
    """Connections are reset, and new ones too, until it is over."""

    name = "cut"

    def inject(self) -> str:
        link = self.link()
        self.workload.links.cut(link)
        try:
            self.hold(0.2, 3.0)
        finally:
            self.workload.links.mend(link)
        return "cut"


class Stall(LinkFault):
    """A black hole: connections stay, nothing passes; later everything comes at once."""

    name = "stall"

    def inject(self) -> str:
        link = self.link()
        self.workload.links.stall(link)
        try:
            self.hold(0.5, 4.0)
        finally:
            self.workload.links.mend(link)
        return "stalled"


class Slow(LinkFault):
    """Every piece of data is late."""

    name = "slow"

    def inject(self) -> str:
        link = self.link()
        self.workload.links.slow(link, self.random.choice([0.01, 0.05, 0.2]))
        try:
            self.hold(1.0, 4.0)
        finally:
            self.workload.links.mend(link)
        return "slowed"
