"""Sockets that listen: bound here, or inherited from a supervisor that keeps them.

While a supervisor holds the socket too, connections wait while the process that serves it is started again, where they
would be refused.
"""

from __future__ import annotations

import os
import socket

from clickline.errors import PeerError

VARIABLE = "CLICKLINE_LISTENER"
"""The descriptor of a socket that listens already, in the environment of a predictor that a suite starts."""
_BACKLOG = 1024


def inherited_listener() -> socket.socket | None:
    """The one that this process was given, if it was."""
    text = os.environ.pop(VARIABLE, "")
    if not (text.isascii() and text.isdigit()):
        return None
    listener = socket.socket(fileno=int(text))
    # A child with a copy of it would keep the port open after this process has closed it.
    listener.set_inheritable(False)
    return listener


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises PeerError if the port cannot be had."""
    try:
        known = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = known[0]
        listener = socket.socket(family, kind, protocol)
        try:
            # Connections of a predecessor that are still in TIME_WAIT must not keep a restarted process from its port.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise PeerError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return listener
