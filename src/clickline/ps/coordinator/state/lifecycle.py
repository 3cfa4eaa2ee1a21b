"""How far a run has come, and what it is about to do."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Lifecycle:
    """Flags of the whole run. Not locked: the run's state, which owns it, is."""

    opened: bool = False
    """Processes may join."""
    begun: bool = False
    """All have gathered: from here on a death is more than a slow start."""
    final: bool = False
    """Training is over: nothing that happens now can change the model."""
    rollback_wanted: bool = False
    """Everybody must go back to the last snapshot."""
    stop_reason: str | None = None
    """Why everybody is told to stop, if so."""
    superseded: str | None = None
    """Why this coordinator does not count any more, if so: another one has its place."""
    version: int = 0
    """Counts announcements; a heartbeat is answered when it changes."""
    served_checkpoint: str | None = None
    """The checkpoint that a server which comes back should load."""
    empty_servers: set[str] = field(default_factory=set)
    """When a coordinator takes over: servers that had nothing loaded when they joined it."""
    stale_servers: bool = False
    """When a coordinator takes over: some server is of another generation, or the generation had to be guessed."""
