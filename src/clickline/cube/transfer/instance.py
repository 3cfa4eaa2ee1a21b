"""A cube server as transfer sees it: its state by the older codes, and when it came to each.

An instance is *dead* when its agent or its server cannot be reached, *failed* when one of them refused something.
Either is trouble, which has a beginning. Of a dead one nothing is believed any more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from clickline.net.addresses import host_and_port

STATES = {
    "Clearing": 1,
    "Cleared": 2,
    "Init": 10,
    "Downloading": 20,
    "Download_Failed": 30,
    "Download_Succ": 40,
    "Reloading": 50,
    "Reload_Failed": 60,
    "Reload_Succ": 70,
    "Enabling": 80,
    "Enable_Failed": 90,
    "Enable_Succ": 100,
    "Poping": 110,
    "Pop_Failed": 120,
    "Pop_Succ": 130,
    "Dead": 250,
}
"""Of an instance."""
PHASES = {
    "Clearing": 1,
    "Cleared": 2,
    "Trigging": 10,
    "Building": 20,
    "Deploying": 30,
    "Downloading": 40,
    "Download_Succ": 50,
    "Reloading": 60,
    "Reload_Succ": 70,
    "Enabling": 80,
    "Finished": 90,
    "Restarting": 100,
}
"""Of a version."""
_TIMES = (
    "builded_time",
    "download_start_time",
    "downloaded_time",
    "reload_start_time",
    "reloaded_time",
    "enable_start_time",
    "enabled_time",
    "create_time",
)
_STAMPS = {
    "Downloading": "download_start_time",
    "Download_Succ": "downloaded_time",
    "Reloading": "reload_start_time",
    "Reload_Succ": "reloaded_time",
    "Enabling": "enable_start_time",
    "Enable_Succ": "enabled_time",
}


@dataclass(frozen=True)
class Replica:
    """One server of a shard, and the agent beside it."""

    agent: str
    """URL of its agent."""
    cube: str
    """The server's address on the wire, as clients know it."""
    deploy_path: str = ""


@dataclass
class Instance:
    """What is known of one replica. Written by its driver's thread, read by all."""

    shard: int
    copy: int
    replica: Replica
    state: str = "Init"
    version: int = 0
    """What it was last busy with."""
    message: str = ""
    trouble_since: float | None = field(default_factory=time.monotonic)
    """None: all is well. At the start nobody has answered yet."""
    dead: bool = True
    seen: dict[str, Any] = field(default_factory=dict)
    """What the server said of itself last."""
    times: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_TIMES, 0.0))
    source: str = ""

    @property
    def name(self) -> str:
        return f"{self.shard}_{self.copy}"

    def enter(self, state: str, *, version: int = 0) -> None:
        if version and version != self.version:
            self.version = version
            self.times = {**dict.fromkeys(_TIMES, 0.0), "create_time": time.time()}
        self.state = state
        if state in _STAMPS and not (state in ("Download_Succ", "Reload_Succ") and self.times[_STAMPS[state]]):
            self.times = {**self.times, _STAMPS[state]: time.time()}

    def well(self) -> None:
        self.trouble_since, self.message, self.dead = None, "", False

    def trouble(self, message: str, *, dead: bool, state: str) -> bool:
        """Whether it is news."""
        news = self.message != message or self.trouble_since is None
        self.trouble_since = time.monotonic() if self.trouble_since is None else self.trouble_since
        self.message, self.dead, self.state = message, dead, state
        if dead:
            self.seen = {}
        return news

    def has_downloaded(self, version: int) -> bool:
        return version in self.seen.get("complete", ()) or self.has_loaded(version)

    def has_loaded(self, version: int) -> bool:
        return version in self.seen.get("loaded", ())

    def serves(self, version: int, number: int) -> bool:
        return (self.seen.get("version"), self.seen.get("number")) == (version, number)

    def to_dict(self, *, name: str, step: dict[str, Any]) -> dict[str, Any]:
        """The older shape; numbers are strings."""
        ip, port = _host_and_port(self.replica.cube)
        agent = urlsplit(self.replica.agent)
        return {
            "dict_name": name,
            "mode": step.get("mode", ""),
            "version": str(self.version or ""),
            "depend": step.get("depend", ""),
            "id": step.get("id", ""),
            "key": step.get("key", ""),
            "shard": self.shard,
            "source": self.source,
            "deploy_path": self.replica.deploy_path,
            "ip": ip,
            "port": port,
            "agent_ip": agent.hostname or "",
            "agent_port": str(agent.port or ""),
            "status_id": STATES[self.state],
            "status": self.state,
            "message": self.message,
            **{key: int(value) for key, value in self.times.items()},
        }


def _host_and_port(address: str) -> tuple[str, str]:
    if address.startswith("unix:"):
        return address, ""
    host, port = host_and_port(address)
    return host, str(port)
