"""The health of a run, judged by its status: for `clickline status` and for `/health` of the run itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

ENDED = ("finished", "failed", "interrupted")
"""Phases after which nobody writes the status any more."""
STALE = 10.0
"""Seconds after which a status, which is written each second, counts as abandoned."""


def age_of(status: Mapping[str, Any]) -> float:
    """Seconds since the status was written."""
    written: float = status.get("time", 0)
    return round(max(0.0, time.time() - written), 1)


def complaints_of(status: Mapping[str, Any]) -> Iterator[str]:
    """Every problem, as a sentence."""
    phase, why, age = status.get("phase"), status.get("why"), age_of(status)
    if phase == "failed":
        yield f"the run failed: {why}" if why else "the run failed"
    elif phase == "interrupted":
        yield f"the run was interrupted: {why}" if why else "the run was interrupted"
    elif phase != "finished":
        if age > STALE:
            yield f"nobody has written the status for {age:.0f} s: the process that writes it is gone or hangs"
        for member in status.get("members", ()):
            if member.get("state") in ("slow", "dead"):
                yield f"{member['name']} is {member['state']}, silent for {member.get('silent', 0):.0f} s"
    for piece in (status.get("pieces") or {}).get("set_aside", ()):
        yield f"set aside: piece {piece['piece']} of {piece['path']}: {piece['reason']}"
    for node in status.get("nodes", ()):
        if node["untrained_pieces"]:
            rows = "unknown" if node["untrained_rows"] is None else f"{node['untrained_rows']:,}"
            yield f"not trained: {node['untrained_pieces']} pieces of node {node['node']}, which was gone; rows: {rows}"
