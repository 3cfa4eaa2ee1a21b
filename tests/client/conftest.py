"""A predictor in little, as over a network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.doubles.predictor_double import PredictorDouble
from support.serving.both_clients import Call, async_call, sync_call


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[PredictorDouble]:
    monkeypatch.delenv("CLICKLINE_TOKEN", raising=False)
    server = PredictorDouble()
    yield server
    server.stop()  # a second time does no harm


@pytest.fixture(params=[sync_call, async_call], ids=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Call:
    """call(url, method, …, options={…} of the client)"""
    made: Call = request.param
    return made
