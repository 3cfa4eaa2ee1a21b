"""The operations between processes: what is documented is what is answered, by tables and types."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.errors import PeerError
from clickline.ps.coordinator.handlers import request_dispatcher
from clickline.ps.protocol import (
    file_messages,
    member_messages,
    model_messages,
    protocol_page,
    pserver_messages,
    work_messages,
)
from clickline.ps.protocol.framing import pack, unpack
from clickline.ps.protocol.refusals import RemoteErrorType, remote_error_type
from clickline.ps.server import operations

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_the_reference_is_current() -> None:
    remedy = "run python -m clickline.ps.protocol.protocol_page docs/reference"
    assert (REFERENCE / "protocol.md").read_text(encoding="utf-8") == protocol_page.page(), remedy


def test_every_request_has_one_entry_in_the_table_of_its_receiver() -> None:
    for requests, table in (
        (
            (
                member_messages.REQUESTS
                + model_messages.REQUESTS
                + work_messages.REQUESTS
                + file_messages.TO_COORDINATOR
            ),
            request_dispatcher.OPERATIONS,
        ),
        (pserver_messages.REQUESTS + file_messages.TO_SERVER, operations.OPERATIONS),
    ):
        assert {request.operation: request for request in requests} == {
            name: entry.request for name, entry in table.items()
        }


@pytest.mark.parametrize("values", [{}, {"lease": "1", "rows": 5, "generation": 1}, {"lease": 1, "rows": 5}])
def test_a_request_of_another_shape_is_refused(values: dict[str, object]) -> None:
    body = b"".join(bytes(part) for part in pack(values))
    with pytest.raises(PeerError, match="a message cannot be read"):
        unpack(body, work_messages.FinishedRequest)


def test_an_error_of_a_server_is_known_by_its_type_not_by_its_words() -> None:
    refused = PeerError("pserver.0 at unix:/run/s: ModelError: a gradient is not finite")
    other = PeerError("pserver.0 at unix:/run/s: ValueError: it reads like a ModelError: but is none")
    assert remote_error_type(refused) == RemoteErrorType.MODEL
    assert remote_error_type(other) is None
    assert remote_error_type(PeerError("pserver.0 at unix:/run/s: no answer within 5 s")) is None
