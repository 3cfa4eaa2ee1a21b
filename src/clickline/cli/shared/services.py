"""Verbs that run one service: token, log and heartbeat, signals that stop it cleanly, a port that stays the same."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

Ready = Annotated[
    Path | None, typer.Option("--ready-file", metavar="FILE", help="Written when it listens: where, as JSON.")
]
Open = Annotated[bool, typer.Option("--open", help="No token for commands by HTTP; only on a loopback address.")]


def run_service(role: str, rank: int, make: Callable[[bytes], Any]) -> None:
    """Make a service with the token, wait until it is told to stop, close it."""
    from clickline.net.tokens import read_token
    from clickline.processes.child import stopped_by_signals
    from clickline.processes.heartbeats.heartbeat import Heartbeat
    from clickline.processes.logs import set_up
    from clickline.processes.open_files import raise_open_file_limit

    set_up(role, rank)
    raise_open_file_limit()
    _be_quiet("httpx", "httpcore", "uvicorn")
    heartbeat = Heartbeat.inherited()
    with stopped_by_signals():
        # A signal may come while the service is made, when there is nothing to close yet.
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
    """The port that a service listens on: one that was started again takes the port it had, by which others know it."""
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
