"""What verbs of the cube's processes share: token and log, signals that stop them cleanly, ports that stay the same."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def run_service(role: str, rank: int, make: Callable[[bytes], Any]) -> None:
    """Make it, wait until it is told to stop, close it."""
    from clickline.net.tokens import read_token
    from clickline.processes.child import stopped_by_signals
    from clickline.processes.heartbeat import Heartbeat
    from clickline.processes.logs import set_up
    from clickline.processes.open_files import raise_open_file_limit

    set_up(role, rank)
    raise_open_file_limit()
    _be_quiet("httpx", "httpcore", "uvicorn")
    heartbeat = Heartbeat.inherited()
    with stopped_by_signals():
        service = None
        try:
            service = make(read_token(os.environ))
            service.wait(heartbeat)
        except KeyboardInterrupt:  # being told to stop is how a service ends
            pass
        finally:
            if service is not None:
                service.close()


def same_port(port: int, ready: Path | None) -> int:
    """A process that comes back takes the port that it had: others know it by that."""
    if port == 0 and ready is not None:
        try:
            return urlsplit(json.loads(ready.read_text(encoding="utf-8"))["http"]).port or 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0
    return port


def _be_quiet(*names: str) -> None:
    import logging

    for name in names:
        logging.getLogger(name).setLevel(logging.WARNING)
