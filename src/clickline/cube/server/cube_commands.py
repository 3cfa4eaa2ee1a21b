"""Commands to a cube server over its wire: CALLs whose arguments and replies are JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Self

import msgspec

from clickline import _native
from clickline.cube.agent_messages import CubeServerStatus
from clickline.errors import PeerError
from clickline.files.typed_json import convert_json

ALIVE = "alive"
"""The command that does nothing but be answered."""


class CubeCommands:
    """A connection to one cube server. A context manager.

    A server that cannot be reached is tried again for `patience` seconds; one that was reached has `deadline` seconds.
    Every method raises PeerError, with the server's message if it refuses.
    """

    def __init__(self, address: str, *, name: str, token: bytes, patience: float = 5.0, deadline: float = 5.0) -> None:
        self._lane = _native.Lane(
            [address],
            token=token,
            job=name,
            name="agent",
            # The server remembers sequence number and reply of each client, so as not to execute a repeated request
            # twice. A client number that was used before would get another connection's replies.
            client=int.from_bytes(os.urandom(8), "little"),
            lane=0,
            deadline=deadline,
            retry_for=patience,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._lane.close()

    def alive(self) -> None:
        self.call(ALIVE)

    def status(self) -> CubeServerStatus:
        try:
            return convert_json(self.call("status"), CubeServerStatus)
        except msgspec.ValidationError as error:
            raise PeerError(f"the server's status cannot be understood: {error}") from None

    def load(self, version: int, *, deadline: float) -> None:
        self.call("load", version=version, deadline=deadline)

    def switch(self, version: int, *, number: int, peers: Sequence[str] | None) -> None:
        self.call("switch", version=version, number=number, peers=peers)

    def roll_back(self, version: int, *, number: int, peers: Sequence[str] | None) -> None:
        self.call("rollback", version=version, number=number, peers=peers)

    def drop(self, version: int) -> None:
        self.call("drop", version=version)

    def remove(self, version: int) -> None:
        self.call("remove", version=version)

    def call(self, op: str, *, deadline: float | None = None, **arguments: Any) -> Any:
        (reply,) = self._lane.call(op, [[json.dumps(arguments).encode()]], deadline=deadline)
        return json.loads(reply)
