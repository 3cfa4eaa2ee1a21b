"""A cube server as transfer sees it: what it is busy with, since when, and whether it can be reached.

An instance is *dead* when its agent or its server cannot be reached, *failed* when one of them refused something.
Either is trouble, which has a beginning. The last known status of a dead one counts for nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum

from clickline.cube.agent_messages import CubeServerStatus
from clickline.cube.layouts.layout import Replica


class InstanceState(Enum):
    """What an instance was last seen doing."""

    INITIAL = "initial"
    DOWNLOADING = "downloading"
    DOWNLOAD_FAILED = "download failed"
    DOWNLOADED = "downloaded"
    LOADING = "loading"
    LOAD_FAILED = "load failed"
    LOADED = "loaded"
    SWITCHING = "switching"
    SWITCH_FAILED = "switch failed"
    IN_SERVICE = "in service"
    DEAD = "dead"

    def failed(self) -> InstanceState:
        """The state of an instance that fails while it is in this one."""
        return _FAILURES.get(self, self)


_FAILURES = {
    InstanceState.DOWNLOADING: InstanceState.DOWNLOAD_FAILED,
    InstanceState.LOADING: InstanceState.LOAD_FAILED,
    InstanceState.DOWNLOADED: InstanceState.LOAD_FAILED,
    InstanceState.SWITCHING: InstanceState.SWITCH_FAILED,
    InstanceState.DEAD: InstanceState.INITIAL,
}
_REACHED_ONCE = (InstanceState.DOWNLOADED, InstanceState.LOADED)
"""States whose first time counts: they are entered again whenever the reconciler finds them reached."""


@dataclass
class Instance:
    """What is known of one replica. Written by its reconciler's thread, read by all."""

    shard: int
    copy: int
    replica: Replica
    layout: int = 1
    """Epoch of its layout."""
    state: InstanceState = InstanceState.INITIAL
    version: int = 0
    """The version that it was last busy with."""
    message: str = ""
    trouble_since: float | None = field(default_factory=time.monotonic)
    """None: it is healthy. At the start nobody has answered yet."""
    dead: bool = True
    server: CubeServerStatus | None = None
    """The server's last status; None while it cannot be reached."""
    created: float = 0.0
    """When it was first busy with the version."""
    times: dict[InstanceState, float] = field(default_factory=dict)
    """When it entered each state with that version."""
    source: str = ""

    @property
    def name(self) -> str:
        place = f"{self.shard}_{self.copy}"
        return place if self.layout == 1 else f"{self.layout}/{place}"

    def enter(self, state: InstanceState, *, version: int = 0) -> None:
        if version and version != self.version:
            self.version, self.created, self.times = version, time.time(), {}
        self.state = state
        if state not in _REACHED_ONCE or state not in self.times:
            # Replaced, not changed: HTTP handlers read the old one without a lock.
            self.times = {**self.times, state: time.time()}

    def recover(self) -> None:
        self.trouble_since, self.message, self.dead = None, "", False

    def fail(self, message: str, *, dead: bool, state: InstanceState) -> bool:
        """Record trouble; whether it is another than before."""
        is_new = self.message != message or self.trouble_since is None
        # The patience counts from the beginning of the trouble; further failures do not extend it.
        self.trouble_since = time.monotonic() if self.trouble_since is None else self.trouble_since
        self.message, self.dead, self.state = message, dead, state
        # A process that was restarted may have lost everything that it last reported.
        if dead:
            self.server = None
        return is_new

    def has_downloaded(self, version: int) -> bool:
        return (self.server is not None and version in self.server.complete) or self.has_loaded(version)

    def has_loaded(self, version: int) -> bool:
        return self.server is not None and version in self.server.loaded

    def serves(self, version: int, number: int) -> bool:
        return self.server is not None and (self.server.version, self.server.number) == (version, number)
