"""From a CALL frame to the operation it names: what every request has to pass before it is carried out.

In this order: the operation exists, the message is of its type, the coordinator that asks (if one does) is the newest,
a model is loaded, and the request was not executed before.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from clickline.errors import PeerError
from clickline.ps.protocol.framing import pack, unpack
from clickline.ps.protocol.pserver_messages import ServerReply, ServerRequest
from clickline.ps.protocol.refusals import ErrorCode, Refusal
from clickline.ps.server.operations import OPERATIONS

if TYPE_CHECKING:
    from clickline.ps.server.server import ParameterServer


class Dispatcher:
    """Finds the operation of a request, and keeps an order of the coordinator from being carried out twice."""

    def __init__(self, server: ParameterServer) -> None:
        self._server = server
        self._newest_epoch = 0
        """Writer epoch of the newest coordinator that is known: an earlier one is not obeyed."""
        self._ordering = threading.Lock()
        self._last_order: tuple[str, list[Any]] = ("", [])
        """The coordinator's last order, and the reply to it."""

    def hear_of_coordinator(self, epoch: int) -> None:
        self._newest_epoch = max(self._newest_epoch, epoch)

    def handle(self, client: str, number: int, name: str, body: memoryview) -> list[Any]:
        """One request, on one of the wire's threads; the reply as the buffers that make it up."""
        server = self._server
        operation = OPERATIONS.get(name)
        if operation is None:
            raise PeerError(f"{server.name} has no operation {name!r}; it has {', '.join(OPERATIONS)}")
        request, arrays = unpack(body, operation.request)
        if not self._obeys(request):
            return self._not_obeyed()
        if operation.needs_model:
            server.await_loaded()
        # Sequence numbers: the request may have been executed by the server before this one, and be in what was loaded.
        if server.wire.already_done():
            return operation.answer_again(server, request, arrays)
        if not request.order:
            return operation.execute(server, request, arrays)
        # An order has no sequence number but an id: a coordinator whose connection broke sends it again, and counts
        # must not decay twice for that.
        with self._ordering:
            if not self._obeys(request):  # a newer coordinator's order came first
                return self._not_obeyed()
            if self._last_order[0] != request.order:
                self._last_order = request.order, operation.execute(server, request, arrays)
            return self._last_order[1]

    def _obeys(self, request: ServerRequest) -> bool:
        """Whether the request is a trainer's, or of the newest coordinator that is known."""
        if request.writer_epoch is None:
            return True
        self.hear_of_coordinator(request.writer_epoch)
        return request.writer_epoch == self._newest_epoch

    def _not_obeyed(self) -> list[Any]:
        refusal = Refusal(ErrorCode.COORDINATOR_REPLACED, f"{self._server.name} follows a newer coordinator")
        return pack(ServerReply(refusal=refusal, writer_epoch=self._newest_epoch))
