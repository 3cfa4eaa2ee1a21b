"""Load over gRPC: both loops, errors by reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clickline import PeerError
from clickline.client.http_requests import address_of
from clickline.client.load.http_load import LoadPlan
from clickline.client.load.load_test import measure
from clickline.net.request_errors import refuse
from clickline.serve.protocols.grpc_server import start_grpc
from clickline.serve.serve_settings import ServeLimits
from support.doubles.grpc_double import AskedDouble

ROWS = [{"I1": number, "C1": "a"} for number in range(20)]


@pytest.fixture
def served() -> Iterator[tuple[AskedDouble, str]]:
    asked = AskedDouble()
    server = start_grpc(asked, "127.0.0.1:0", limits=ServeLimits())
    yield asked, server.address
    server.stop(0)


@pytest.mark.parametrize("rate", [None, 200.0])
def test_both_loops(served: tuple[AskedDouble, str], rate: float | None) -> None:
    load = LoadPlan(connections=3, requests=60, rate=rate)
    figures, tally = measure(address_of(served[1]), ROWS, load, protocol="grpc", per_request=4, model="ctr")
    assert (figures["requests"], figures["failed"], figures["versions"]) == (60, 0, {"7": 60})
    assert tally.rows == 240
    assert len(served[0].timeouts) == 63


def test_it_ends_after_its_seconds(served: tuple[AskedDouble, str]) -> None:
    load = LoadPlan(connections=2, seconds=0.3)
    figures, _ = measure(address_of(served[1]), ROWS, load, protocol="grpc", model="ctr")
    assert 0.3 <= figures["seconds"] < 5
    assert figures["requests"] > 5


def test_errors_are_counted_by_reason(served: tuple[AskedDouble, str]) -> None:
    asked, address = served
    answered = asked.ask

    def sometimes(*arguments: object, **named: object) -> object:
        if len(asked.timeouts) == 4:
            asked.timeouts.append(None)
            raise refuse("overloaded", "no", 1.0)
        return answered(*arguments, **named)  # type: ignore[arg-type]

    asked.ask = sometimes  # type: ignore[method-assign,assignment]
    figures, _ = measure(address_of(address), ROWS, LoadPlan(requests=10), protocol="grpc", model="ctr")
    assert figures["errors"] == {"overloaded": 1}


def test_nobody_there_is_an_error(served: tuple[AskedDouble, str]) -> None:
    with pytest.raises(PeerError, match="does not answer over gRPC"):
        measure(address_of("127.0.0.1:1"), ROWS, LoadPlan(requests=1, timeout=2.0), protocol="grpc", model="ctr")
