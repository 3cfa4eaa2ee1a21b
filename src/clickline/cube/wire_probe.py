"""A health check of a cube server over its own socket, as a client sees it.

Two things are tried: a new connection, which must be greeted (the thread that accepts is alive), and a call with the
token over a connection that is held from the start (those that answer are). A new connection alone would not do: a
server that has as many connections as it allows refuses more, and is healthy.
"""

from __future__ import annotations

import socket

from clickline.cube.server.cube_commands import CubeCommands
from clickline.errors import PeerError
from clickline.net.addresses import host_and_port

PATIENCE = 5.0


class WireProbe:
    """Checks the server at `address`. For one thread only."""

    def __init__(self, address: str, *, name: str, token: bytes) -> None:
        self._address = address
        self._commands = CubeCommands(address, name=name, token=token, patience=0.0, deadline=PATIENCE)

    def answers(self) -> bool:
        return self._is_greeted() and self._is_answered()

    def close(self) -> None:
        self._commands.close()

    def _is_greeted(self) -> bool:
        """Anything that comes is a greeting: a HELLO, a refusal, or the end of the connection."""
        kind, _, path = self._address.partition(":")
        try:
            if kind == "unix":
                connection = socket.socket(socket.AF_UNIX)
                connection.settimeout(PATIENCE)
                with connection:
                    connection.connect(path)
                    connection.recv(1)
            else:
                with socket.create_connection(host_and_port(self._address), PATIENCE) as connection:
                    connection.recv(1)
        # A reset is a refusal by a process that accepts connections; where none listens, connecting fails.
        except ConnectionResetError:
            return True
        except OSError:
            return False
        return True

    def _is_answered(self) -> bool:
        try:
            self._commands.alive()
        except PeerError:
            return False
        return True
